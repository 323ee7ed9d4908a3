"""`medheb doctor --online` with the real clients of two hubs: each obstacle has words and a remedy of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hub_samples import CANARY, clean_home
from plan_samples import dataset, make_run
from servers.huggingface import COMMIT, REPOSITORY, Hub
from servers.synapse import Synapse

from medheb.fetch.doctor import Check, diagnose
from medheb.manifest.dataset import Dataset

HUB = {"kind": "huggingface", "repository": REPOSITORY, "revision": COMMIT}
SITE = {"kind": "synapse", "entities": ["syn1"]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No credentials but those that a test gives, and no long waits."""
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    return clean_home(tmp_path, monkeypatch)


def asked(tmp_path: Path, source: Dataset) -> Check:
    """What the doctor says of the host."""
    diagnosis = diagnose(make_run(tmp_path, source, accept="open"), [], online=True, pins=Path("none"))
    (check,) = (check for check in diagnosis.checks if check.topic == "hosts")
    assert CANARY not in diagnosis.model_dump_json()
    return check


def gone(hub: Hub) -> None:
    hub.files.clear()
    hub.gated = False


def unread(hub: Hub) -> None:
    hub.accepted = False
    hub.denial = "Access to dataset group/set is restricted and you are not in the authorized list."


def down(hub: Hub) -> None:
    hub.fail = [503] * 50


HUB_CASES: dict[str, tuple[str | None, Callable[[Hub], None], str]] = {
    "well": (CANARY, lambda _: None, "huggingface answers, 1 files"),
    "no token": (None, lambda _: None, "gated and there is no token"),
    "wrong token": ("wrong_" + CANARY, lambda _: None, "does not know the token"),
    "terms": (CANARY, unread, "terms are not accepted"),
    "gone": (CANARY, gone, "lists none of the wanted files"),
    "down": (CANARY, down, "trouble of its own (HTTP 503)"),
}


@pytest.mark.parametrize("case", HUB_CASES)
def test_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    token, change, words = HUB_CASES[case]
    with Hub({"a.parquet": b"x" * 5000}, gated=True, token=CANARY) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.api.url)
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        change(hub)
        check = asked(tmp_path, dataset("a", host=HUB, files=[], files_note="the hub lists them"))
    assert words in check.found
    assert (check.ok, bool(check.remedy)) == (case == "well", case != "well")


def unmet(site: Synapse) -> None:
    site.unmet = {"syn1"}


def deleted(site: Synapse) -> None:
    site.files.clear()


def failing(site: Synapse) -> None:
    site.fail = [503] * 50


SITE_CASES: dict[str, tuple[str | None, Callable[[Synapse], None], str]] = {
    "well": (CANARY, lambda _: None, "synapse answers, 1 files"),
    "no token": (None, lambda _: None, "wants a login and there is none"),
    "wrong token": ("wrong_" + CANARY, lambda _: None, "does not know the token (401)"),
    "no clearance": (CANARY, unmet, "conditions for the use of syn1 are not met by this account"),
    "gone": (CANARY, deleted, "no longer has it (HTTP 404)"),
    "down": (CANARY, failing, "trouble of its own (HTTP 503)"),
}


@pytest.mark.parametrize("case", SITE_CASES)
def test_site(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    pytest.importorskip("synapseclient", reason="optional client synapseclient is not installed")
    monkeypatch.setattr("synapseclient.core.retry.doze", lambda _: None)
    token, change, words = SITE_CASES[case]
    with Synapse({"syn1": ("syn9", "a.zip", b"x" * 5000)}, {}, token=CANARY) as site:
        (home / ".synapseConfig").write_text(site.config())
        if token:
            monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", token)
        change(site)
        check = asked(tmp_path, dataset("a", host=SITE, files=[], files_note="the site lists them"))
    assert words in check.found
    assert (check.ok, bool(check.remedy)) == (case == "well", case != "well")


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        check = asked(tmp_path, dataset("a", host=HUB, files=[], files_note="the hub lists them"))
    assert "cannot be reached" in check.found


@pytest.mark.parametrize("cases", [HUB_CASES, SITE_CASES])
def test_no_two_obstacles_read_the_same(cases: dict[str, tuple[object, object, str]]) -> None:
    assert len({words for _, _, words in cases.values()}) == len(cases)
