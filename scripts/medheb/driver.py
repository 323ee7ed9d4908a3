"""Run the workflow from one command, and take up runs that were killed, here or on a cluster."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.json_text import parse_json
from medheb.core.layout import Layout
from medheb.core.status import read_status
from medheb.fetch.found_weights import weights_changed
from medheb.manifest.load import Run, load_config, load_run

BASE_CONFIG = Path("config/config.yaml")
DRIVER = Path(".snakemake/medheb_driver.json")


def run_workflow(config: Path | None, cores: int) -> int:
    """Run ``snakemake all`` with progress, then print the leaderboard. Returns the exit code.

    Raises:
        MedhebError: not the repository's folder, or another Snakemake works in it.
    """
    _require_snakefile()
    run = load_run(load_config([BASE_CONFIG, *([config] if config else [])]))
    for path in forget_trouble(run):
        print(f"trying again: {path}", flush=True)
    options = ["--configfile", str(config)] if config else []
    if _stale_lock():
        _snakemake(["--unlock", *options])
        print("an earlier run was killed; going on where it stopped", flush=True)
    dry = subprocess.run(
        _command(["all", "-n", *options, "--quiet", "rules"]), capture_output=True, text=True, check=False
    )
    if dry.returncode == 0 and "Nothing to be done" in dry.stdout + dry.stderr:
        print("nothing to be done: everything is up to date", flush=True)
        code = 0
    else:
        code = _snakemake(["all", "--cores", str(cores), "--logger", "medheb", *options])
    if (run.layout.report / "summary.json").exists():
        from medheb.report.terminal import print_leaderboard

        print_leaderboard(run)
    return code


def resume_workflow(arguments: Sequence[str], *, cancel: bool = False, dead: bool = False) -> int:
    """Take up a run on a cluster whose Snakemake died. Returns the exit code of the new one.

    No job is lost and none runs twice: what still runs in Slurm is waited for (its results count) or cancelled
    before Snakemake starts again, and Snakemake makes again what is incomplete.

    Args:
        arguments: what Snakemake was called with, without ``--profile slurm``.
        cancel: cancel what still runs.
        dead: the user knows that the Snakemake of another machine is dead.

    Raises:
        MedhebError: not the repository's folder, a live Snakemake works in it, or Slurm does not answer.
    """
    from medheb.cluster.queue import end_orphans

    def tell(line: str) -> None:
        print(line, flush=True)

    _require_snakefile()
    locked = _stale_lock()
    host = _other_host() if locked and not dead else None
    if host:
        raise MedhebError(
            Path.cwd(),
            f"is in use by a Snakemake that was started on {host}",
            f"Call this on {host}, or add --driver-is-dead if you know that none runs there",
        )
    end_orphans(Path.cwd(), cancel=cancel, tell=tell)
    profile = [] if any(word.split("=")[0] == "--profile" for word in arguments) else ["--profile", "slurm"]
    if locked:
        _snakemake([*profile, "--unlock", *arguments])
        tell("the earlier Snakemake was killed; going on where it stopped")
    return _snakemake([*profile, *arguments])


def run_starts(warn: Callable[[str], None]) -> None:
    """Note machine and process of this Snakemake, and warn of an old profile. The Snakefile calls this."""
    from medheb.cluster.profile import outdated

    write_json(DRIVER, {"host": socket.gethostname(), "process": os.getpid()})
    if trouble := outdated():
        warn(trouble)


def _other_host() -> str | None:
    """The machine of the last Snakemake in this folder, if it is not this one."""
    try:
        host = parse_json(DRIVER.read_bytes())["host"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return host if isinstance(host, str) and host != socket.gethostname() else None


def _require_snakefile() -> None:
    if not Path("Snakefile").exists():
        raise MedhebError(Path.cwd(), "holds no Snakefile", "Run this in the root of the repository")


def forget_trouble(run: Run) -> list[Path]:
    """Delete every result whose status is not ok, so that Snakemake makes it again. Returns what was deleted."""
    found = [path for path in dict.fromkeys(_troubled(run)) if path.exists()]
    for path in found:
        path.unlink()
    return found


def forget_built(run: Run, dataset: str) -> list[Path]:
    """Delete what was built from a source, so that Snakemake builds it again. Returns what was deleted.

    Raises:
        MedhebError: the run has no such source.
    """
    if dataset not in run.datasets:
        raise MedhebError(dataset, "is not a source of this run", f"Allowed: {', '.join(run.datasets)}")
    inventory = run.layout.inventory(run.datasets[dataset].images, dataset)
    if not inventory.exists():
        return []
    inventory.unlink()
    return [inventory]


def _troubled(run: Run) -> Iterator[Path]:
    layout = run.layout
    for dataset, manifest in run.with_index().datasets.items():
        if _not_ok(layout.source_status(dataset)):
            yield layout.source_status(dataset)
        if _holds_trouble(layout.inventory(manifest.images, dataset)):
            yield layout.inventory(manifest.images, dataset)
    for task in run.every_task.values():
        if _not_ok(layout.task_status(task.index)):
            yield layout.task_status(task.index)
    for model, entry in run.models.items():
        for path in (layout.model_status(model), layout.bridge_status(model)):
            if _not_ok(path):
                yield path
        if weights_changed(layout, entry):
            yield layout.model_status(model)
        for group in run.groups:
            if any(_holds_trouble(path) for path in _receipts(layout, model, group)):
                yield from _receipts(layout, model, group)
        for key in run.tasks:
            if _holds_trouble(layout.score(model, key)):
                yield layout.score(model, key)
                # The vectors behind it may be what is missing; those in the store are not computed again.
                yield from _receipts(layout, model, run.tasks[key].group)
        for key, graded in run.graded_entries.items():
            if _holds_trouble(layout.graded(model, key)):
                yield layout.graded(model, key)
                yield layout.embedded(model, run.every_task[graded.task or key].group)


def _receipts(layout: Layout, model: str, group: str) -> list[Path]:
    """Of the jobs that embedded a group."""
    return [layout.embedded(model, group), *sorted(layout.embedded_shards(model, group).glob("*.json"))]


def _not_ok(path: Path) -> bool:
    try:
        return path.exists() and not read_status(path).ok
    except MedhebError:
        return True


def _holds_trouble(path: Path) -> bool:
    """Inventories, receipts and scores hold a status among other things."""
    try:
        return path.exists() and parse_json(path.read_bytes())["status"]["state"] != "ok"
    except (ValueError, KeyError, TypeError):
        return True


def _stale_lock() -> bool:
    """True if a lock is left from a dead run.

    Raises:
        MedhebError: a live Snakemake works in this folder.
    """
    locks = Path(".snakemake/locks")
    if not locks.is_dir() or not any(locks.iterdir()):
        return False
    here = Path.cwd()
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        info = process.info
        words = info["cmdline"] or []
        if info["pid"] == os.getpid() or not info["cwd"] or Path(info["cwd"]) != here:
            continue
        if "--target-jobs" in words:
            continue  # the Snakemake inside a job of the cluster, where this machine is one of its nodes too
        if any(Path(word).name == "snakemake" or word == "snakemake" for word in words[:4]):
            raise MedhebError(here, f"is in use by Snakemake process {info['pid']}", "Wait for it, or stop it first")
    return True


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments]


def _snakemake(arguments: list[str]) -> int:
    environment = dict(os.environ)
    # Rules call plain `python`; it must be the one that runs now.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    if shutil.which("python", path=environment["PATH"]) is None:
        raise MedhebError(sys.executable, "has no `python` beside it", "Use `make setup` and its .venv")
    return subprocess.run(_command(arguments), env=environment, check=False).returncode
