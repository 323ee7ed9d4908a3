"""A run's folders, a local folder that pip looks into instead of any index, and a count of tests by kind of host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from fetch_samples import WHEEL, WHEEL_MEMBERS, make_zip

from medheb.core.layout import Layout
from medheb.fetch.remote import client_for
from medheb.manifest.hosts import HOST_KINDS, PackageHost

TALKED: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    """Note which clients a test uses."""
    config.addinivalue_line("markers", "host(kind): a test of this kind of host without its client")
    for kind in HOST_KINDS:
        client: Any = type(client_for(kind))
        for name in ("listing", "fetch"):
            setattr(client, name, _noting(kind, getattr(client, name)))


def _noting(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noting(*arguments: Any, **named: Any) -> Any:
        TALKED.add(kind)
        return method(*arguments, **named)

    return noting


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Hand the clients that a test used to its report, which also reaches us from other processes."""
    TALKED.clear()
    try:
        return (yield)
    finally:
        kinds = TALKED | {mark.args[0] for mark in item.iter_markers("host")}
        item.user_properties += [("host", kind) for kind in sorted(kinds)]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each kind of host, also for one that no test used."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in HOST_KINDS}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, kind in report.user_properties:
                if name == "host":
                    counts[kind][outcome] += 1
    terminalreporter.section("kinds of hosts")
    for kind, count in counts.items():
        terminalreporter.line(f"{kind:20} {count['passed']:4} passed {count['failed']:4} failed")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Folders of a run."""
    return Layout(tmp_path / "sources", tmp_path / "MedHEB", tmp_path / "results")


@pytest.fixture
def host() -> PackageHost:
    """The package in the local folder."""
    return PackageHost(kind="package", name="medheb-sample", version="1.0", format="wheel")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into instead of any index, with one wheel in it."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    make_zip(folder / WHEEL, WHEEL_MEMBERS)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    return folder
