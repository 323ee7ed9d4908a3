"""What ``medheb index`` does: make task files of tasks or sources, and check that nothing they name is missing."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from medheb.core.errors import MedhebError
from medheb.core.status import Status
from medheb.index.run import build_index, may_show
from medheb.index.train import QUOTING, Trained, train_command
from medheb.index.verify import Checker, SourceCheck, TaskCheck
from medheb.manifest.base import read_yaml, validate
from medheb.manifest.load import PROTOCOLS, Run
from medheb.manifest.protocol import Protocol

CHECK, TRAIN = "check", "train"


def in_folder(run: Run, out: Path | None, protocol: Literal["release", "corrected"] | None) -> Run:
    """The run on another benchmark folder (as ``medheb build --out`` filled it) or under another protocol."""
    if out is not None:
        if not out.is_dir():
            raise MedhebError(out, "is no folder", "Name the one that `medheb build --out` filled")
        run = replace(run, layout=replace(run.layout, benchmark=out))
    if protocol is not None and protocol != run.config.protocol:
        path = PROTOCOLS / f"{protocol}.yaml"
        config = run.config.model_copy(update={"protocol": protocol})
        run = replace(run, config=config, protocol=validate(Protocol, read_yaml(path), path))
    return run


def knows(run: Run, name: str) -> bool:
    """True if ``name`` is a task or a source of the run."""
    return name in run.every_task or name in run.datasets


def tasks_named(run: Run, names: Sequence[str]) -> list[str]:
    """Task keys that tasks and sources stand for, in the order of the task table; all of the run for no name.

    Raises:
        MedhebError: a name that is neither, or a source that no task uses.
    """
    wanted: set[str] = set()
    for name in names:
        found = {name} & set(run.every_task) or {key for key, task in run.every_task.items() if name in task.sources}
        if not found:
            if name in run.datasets:
                raise MedhebError(name, "is a source that no task of this run uses", "Choose another, or other tasks")
            raise MedhebError(name, "is neither a task nor a source of this run", _names(run, name))
        wanted |= found
    return [key for key in run.every_task if key in wanted] if names else list(run.tasks)


def _names(run: Run, name: str) -> str:
    """Names like a wrong one, else all names."""
    known = {one.casefold(): one for one in (*run.every_task, *run.datasets)}
    if like := get_close_matches(name.casefold(), known):
        return f"Did you mean {' or '.join(known[one] for one in like)}?"
    return f"Tasks: {', '.join(run.tasks)}; sources: {', '.join(run.datasets)}"


def _counts(run: Run, names: Sequence[str], key: str) -> bool:
    """Is it an error where a task cannot be made?

    A task of graded relevance is none of the benchmark's 107, and it needs a second source and tables of labels that a
    copy may lack. Whoever names a source asks for its own tasks; so that such a task cannot be made is told, no more.
    """
    return key in run.tasks or key in names


def index_command(run: Run, names: Sequence[str]) -> list[Status]:
    """Make the task files of tasks or sources, one after the other; the log says what came of each.

    Returns:
        Statuses of the benchmark's tasks, and of those of graded relevance that were named.

    Raises:
        MedhebError: an unknown name, or a source that has not been built; the other tasks are made first.
    """
    made: list[Status] = []
    refused: dict[str, MedhebError] = {}
    for key in tasks_named(run, names):
        counts = _counts(run, names, key)
        try:
            status = build_index(run, key)
        except MedhebError as error:
            if counts:
                refused.setdefault(str(error), error)
            else:
                print(f"not made: {key} (graded relevance, none of the benchmark's own tasks): {error}", flush=True)
            continue
        made += [status] if counts else []
    last = refused.popitem()[1] if refused else None
    for told in refused:
        print(f"error: {told}", file=sys.stderr)
    if last is not None:
        raise last
    return made


def train_rows(run: Run, names: Sequence[str]) -> None:
    """Write training rows and say what came of each task.

    Raises:
        MedhebError: a name that stands for no in-distribution task.
    """
    for trained in train_command(run, names):
        told = f"{trained.rows} rows" if trained.status.ok else f"{trained.status.state}: {_why(run, trained)}"
        kept = [f"kept {entry.rows} with {entry.kind} of a test of {entry.source}" for entry in trained.kept]
        left = [f"left out {count}: {why}" for why, count in trained.removed.items()]
        more = f" ({', '.join([*kept, *left])}; see {trained.listed})" if trained.listed else ""
        print(f"{trained.task}: {told}{more}", flush=True)


def _why(run: Run, trained: Trained) -> str:
    """Why there are no rows, for terminals and logs; without what quotes a restricted source."""
    if may_show(run, run.tasks[trained.task]) or not trained.status.origin.startswith(QUOTING):
        return trained.status.reason
    return "the terms of its source forbid to show why"


def check_command(run: Run, names: Sequence[str], as_json: bool) -> int:
    """Check task files and the built files of their sources, and print what is missing.

    Tasks that are not made count only if they were named, or if there is no other.

    Returns:
        1 if a picture or built file is missing, a task failed or there is no task at all, else 0.
    """
    checker = Checker(run)
    checks: list[TaskCheck] = []
    for key in tasks_named(run, names):
        checks.append(checker.task(run.every_task[key]))
        if not as_json and (names or checks[-1].state != "not made"):
            print("\n".join(checks[-1].lines()), flush=True)
    sources = list(checker.sources.values())
    if as_json:
        content = {"tasks": [check.as_json() for check in checks], "sources": [check.as_json() for check in sources]}
        print(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        for line in (line for check in sources for line in check.lines()):
            print(line)
        print(_sum(checks, sources))
    nothing = all(check.state == "not made" for check in checks)
    bad = {"missing", "failed"} | ({"not made"} if names or nothing else set())
    wrong = any(check.state in bad for check in checks if check.state == "missing" or _counts(run, names, check.task))
    return int(wrong or any(check.missing for check in sources))


def _sum(checks: Sequence[TaskCheck], sources: Sequence[SourceCheck]) -> str:
    counts = Counter(check.state for check in checks)
    told = [f"{counts['complete']} of {len(checks)} tasks are complete"]
    told += [f"{counts['missing']} lack {sum(check.lost for check in checks)} pictures"] if counts["missing"] else []
    told += [f"{counts[state]} {state}" for state in ("failed", "blocked", "not made") if counts[state]]
    lost = sum(check.lost for check in sources)
    told += [f"{lost} built files are gone"] if lost else []
    return ", ".join(told)
