"""``medheb doctor``: is everything there that a run needs from this machine and this user?"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import Field
from rich.console import Console
from rich.markup import escape

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.accept import selected
from medheb.fetch.needs import (
    CLIENTS,
    TOKENS,
    Need,
    client_need,
    host_need,
    local_copy_need,
    needs_token,
    netrc_need,
    netrc_path,
    token_need,
    token_place,
)
from medheb.fetch.plan import free_space, is_complete, make_plan
from medheb.fetch.plan_table import size_text
from medheb.fetch.probe import PROBED, probe
from medheb.fetch.refresh import NOT_ASKED
from medheb.fetch.remote import HostClient, client_for
from medheb.fetch.terms import acceptance_text, require_accepted
from medheb.manifest.base import Strict
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

Topic = Literal["python", "packages", "terms", "tokens", "clients", "local copies", "disk", "netrc", "hosts", "slurm"]
MINIMUM_PYTHON = (3, 11)
CORE_PINS = Path("envs/core.txt")
AT_ONCE = 16
NAME_ONLY = frozenset({"google_drive"})
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)\s*(?:\\)?$")


class Check(Strict):
    """One thing that was looked at."""

    topic: Topic
    about: str = Field(description="source, host or thing")
    ok: bool
    found: str = Field(description="what is there, or what is wrong; never a secret")
    remedy: str = Field(default="", description="what to do; empty if all is well")


class Diagnosis(Strict):
    """What ``medheb doctor --json`` prints."""

    schema_version: int = 1
    online: bool
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return all(check.ok for check in self.checks)


def diagnose(
    run: Run,
    ids: list[str],
    online: bool,
    client: Callable[[str], HostClient] = client_for,
    pins: Path = CORE_PINS,
) -> Diagnosis:
    """Look at everything that the named sources need (all of the run if none is named).

    Args:
        run: the run.
        ids: source ids.
        online: also ask each source's host for its list of files.
        client: how the client of a kind of host is found.
        pins: the pinned requirements of the workflow.

    Raises:
        MedhebError: an id that is no source of this run.
    """
    datasets = selected(run, ids or run.datasets)
    checks = [_python(), *_packages(pins)]
    checks += [_terms(run, dataset) for dataset in datasets]
    checks += [*_tokens(datasets), *_clients(datasets), *_local_copies(run, datasets), *_disk(run), _netrc()]
    if online:
        # Together: a host that is down costs each source the patience of its client.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            checks += pool.map(lambda dataset: _ask(run, dataset, client), datasets)
    return Diagnosis(online=online, checks=tuple(checks))


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] >= MINIMUM_PYTHON:
        return Check(topic="python", about="version", ok=True, found=version)
    return Check(topic="python", about="version", ok=False, found=version, remedy="Use Python 3.11 or newer")


def _packages(pins: Path) -> Iterator[Check]:
    """Installed versions against the pinned ones; only differences are listed one by one."""
    if not pins.is_file():
        yield Check(topic="packages", about=str(pins), ok=True, found="not here; versions were not compared")
        return
    pinned = [match for line in pins.read_text(encoding="utf-8").splitlines() if (match := PIN.match(line.strip()))]
    wrong = 0
    for match in pinned:
        name, version = match.groups()
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "not installed"
        # A local build label (torch 2.1+cpu) is the same release.
        if found.partition("+")[0] != version.partition("+")[0]:
            wrong += 1
            text = f"{found}, pinned is {version}"
            yield Check(topic="packages", about=name, ok=False, found=text, remedy="Run: make setup")
    if not wrong:
        yield Check(topic="packages", about=str(pins), ok=True, found=f"all {len(pinned)} as pinned")


def _terms(run: Run, dataset: Dataset) -> Check:
    try:
        require_accepted(run, dataset)
    except BlockedError as error:
        return Check(topic="terms", about=dataset.id, ok=False, found=error.fault, remedy=error.remedy)
    return Check(topic="terms", about=dataset.id, ok=True, found=acceptance_text(run, dataset))


def _kinds(dataset: Dataset) -> list[str]:
    return list(dict.fromkeys([dataset.host.kind, *(mirror.kind for mirror in dataset.mirrors)]))


def _tokens(datasets: list[Dataset]) -> Iterator[Check]:
    for kind in sorted(TOKENS):
        wanting = [dataset for dataset in datasets if dataset.host.kind == kind and needs_token(dataset, kind)]
        if not wanting:
            continue
        need = token_need(wanting[0], kind)
        sources = ", ".join(dataset.id for dataset in wanting)
        if need:
            text = f"{need.reason}; wanted by {sources}"
            yield Check(topic="tokens", about=kind, ok=False, found=text, remedy=need.remedy)
        else:
            text = f"found in {token_place(kind)}; wanted by {sources}"
            yield Check(topic="tokens", about=kind, ok=True, found=text)


def _clients(datasets: list[Dataset]) -> Iterator[Check]:
    used = {kind for dataset in datasets for kind in _kinds(dataset)}
    for kind in sorted(used & CLIENTS.keys()):
        need = client_need(kind)
        if need:
            yield Check(topic="clients", about=kind, ok=False, found=need.reason, remedy=need.remedy)
        else:
            yield Check(topic="clients", about=kind, ok=True, found=f"{CLIENTS[kind][1]} is installed")


def _local_copies(run: Run, datasets: list[Dataset]) -> Iterator[Check]:
    for dataset in datasets:
        named = dataset.id in run.config.local_copies
        need = local_copy_need(run, dataset) if named else _copy_to_get(run, dataset)
        if need:
            yield Check(topic="local copies", about=dataset.id, ok=False, found=need.reason, remedy=need.remedy)
        elif named:
            yield Check(topic="local copies", about=dataset.id, ok=True, found="readable")


def _copy_to_get(run: Run, dataset: Dataset) -> Need | None:
    """What the user must get by hand, as none of the hosts gives it to a program; tokens and clients count apart."""
    if is_complete(run.layout, dataset.id):
        return None
    needs = [host_need(dataset, host) for host in (dataset.host, *dataset.mirrors)]
    kind = dataset.host.kind
    return None if None in needs or needs[0] in {client_need(kind), token_need(dataset, kind)} else needs[0]


def _disk(run: Run) -> Iterator[Check]:
    for name, folder in (
        ("sources", run.layout.sources),
        ("benchmark", run.layout.benchmark),
        ("results", run.layout.results),
    ):
        size, inodes = free_space(folder)
        room = "no limit of files" if inodes is None else f"room for {inodes:,} files"
        yield Check(topic="disk", about=name, ok=True, found=f"{size_text(size)} free, {room}")
    short = make_plan(run).shortage
    if short:
        yield Check(
            topic="disk",
            about=short.source,
            ok=False,
            found=f"needs {short.needed:,} {short.what} with the sources before it, {short.free:,} are free",
            remedy="See `medheb plan`; free some space, or point 'paths' at a larger disk",
        )


def _netrc() -> Check:
    need = netrc_need()
    if need:
        return Check(topic="netrc", about=str(netrc_path()), ok=False, found=need.reason, remedy=need.remedy)
    found = "only you can read it" if netrc_path().exists() else "there is none"
    return Check(topic="netrc", about=str(netrc_path()), ok=True, found=found)


def _ask(run: Run, dataset: Dataset, client: Callable[[str], HostClient]) -> Check:
    """Ask a source's host for its list. The client's refusal says what is wrong: token, terms, file, server."""
    kind = dataset.host.kind
    if kind in NOT_ASKED and kind not in NAME_ONLY:
        return Check(topic="hosts", about=dataset.id, ok=True, found=f"{kind}: {NOT_ASKED[kind]}")
    try:
        # Asked without a name, the client of such a host has to ask the host for it.
        asked = dataset.model_copy(update={"files": ()}) if kind in NAME_ONLY else dataset
        files = client(kind).listing(asked, dataset.host)
        if kind in PROBED and files:
            probe(dataset, files[0], run.config.transfer.model_copy(update={"attempts": 1}))
    except MedhebError as error:
        found = f"{error.where}: {error.fault}".removeprefix(f"{dataset.id}: ")
        return Check(topic="hosts", about=dataset.id, ok=False, found=found, remedy=error.remedy)
    if kind == "kaggle_competition" and all(not file.address for file in files):
        found = f"{kind}: it tells of token and rules at the download only"
        return Check(topic="hosts", about=dataset.id, ok=True, found=found)
    if not files:
        return Check(
            topic="hosts",
            about=dataset.id,
            ok=False,
            found=f"{kind} answers, but lists none of the wanted files",
            remedy=f"Look at {dataset.links[0]}: the files may have moved; then correct the manifest",
        )
    return Check(topic="hosts", about=dataset.id, ok=True, found=f"{kind} answers, {len(files)} files")


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print what is wrong, line by line, and what is well in short."""
    for topic in dict.fromkeys(check.topic for check in diagnosis.checks):
        checks = [check for check in diagnosis.checks if check.topic == topic]
        wrong = [check for check in checks if not check.ok]
        sign = "[red]x[/]" if wrong else "[green]+[/]"
        console.print(f"{sign} [bold]{topic}[/]: {len(checks) - len(wrong)} of {len(checks)} well", highlight=False)
        # Terms of 54 sources are too many lines if all is well; the rest is worth a line each.
        shown = wrong if topic == "terms" and len(checks) > 5 else checks
        for check in shown:
            mark, style = ("    ", "dim") if check.ok else ("  x ", "red")
            text = f"{mark}{check.about}: {check.found}" + (f"\n      {check.remedy}" if check.remedy else "")
            console.print(f"[{style}]{escape(text)}[/]", highlight=False, soft_wrap=True)
    console.print("all is well" if diagnosis.ok else "something is wrong; see the lines above", highlight=False)
