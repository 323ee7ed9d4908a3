"""`medheb doctor`: each thing that may be wrong is told apart, with its remedy, and no secret is shown."""

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from plan_samples import HOSTS, closed, dataset, file, make_run, mark_fetched
from rich.console import Console

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import doctor, needs, plan
from medheb.fetch.doctor import Check, Diagnosis, diagnose, print_diagnosis
from medheb.fetch.remote import RemoteFile
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No tokens, an own home folder; returns it."""
    for token in needs.TOKENS.values():
        for group in token.variables:
            for name in group:
                monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(needs, "get_token", lambda: None)
    monkeypatch.setattr(needs, "secret", lambda variable, host: None)
    return home


def look(run: Run, *ids: str, online: bool = False, **options: Any) -> Diagnosis:
    return diagnose(run, list(ids), online, **{"pins": Path("none"), **options})


def checks(diagnosis: Diagnosis, topic: str) -> list[Check]:
    return [check for check in diagnosis.checks if check.topic == topic]


def test_all_well(tmp_path: Path) -> None:
    diagnosis = look(make_run(tmp_path, dataset("a"), accept="open"))
    assert diagnosis.ok, diagnosis
    assert {check.topic for check in diagnosis.checks} == {"python", "packages", "terms", "disk", "netrc"}
    assert Diagnosis.model_validate_json(diagnosis.model_dump_json()) == diagnosis


def test_packages_are_held_against_the_pins(tmp_path: Path) -> None:
    pins = tmp_path / "core.txt"
    pins.write_text("# pins\npytest==0.0.1\nno-such-package-of-ours==1.0\n")
    found = checks(look(make_run(tmp_path), pins=pins), "packages")
    assert [check.about for check in found] == ["pytest", "no-such-package-of-ours"]
    assert "pinned is 0.0.1" in found[0].found
    assert "not installed" in found[1].found
    assert all("make setup" in check.remedy and not check.ok for check in found)


def test_terms_and_named_sources_only(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), closed("b"), accept="open")
    assert [(check.about, check.ok) for check in checks(look(run), "terms")] == [("a", True), ("b", False)]
    assert look(run, "a").ok
    assert "medheb accept b" in checks(look(run, "b"), "terms")[0].remedy
    with pytest.raises(MedhebError, match="source 'zzz'"):
        look(run, "zzz")


def test_token_is_found_but_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare_machine: Path) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: object())
    run = make_run(tmp_path, dataset("a", "synapse"), accept="open")
    (missing,) = checks(look(run), "tokens")
    assert (missing.ok, missing.about) == (False, "synapse")
    assert "no Synapse token was found; wanted by a" in missing.found
    assert "SYNAPSE_AUTH_TOKEN" in missing.remedy
    monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", "canary-token-2")
    diagnosis = look(run)
    (there,) = checks(diagnosis, "tokens")
    assert "found in environment (SYNAPSE_AUTH_TOKEN)" in there.found
    console = Console(file=io.StringIO(), width=200)
    print_diagnosis(diagnosis, console)
    assert "canary-token-2" not in diagnosis.model_dump_json() + console.file.getvalue()


def test_what_is_wrong_is_marked_and_its_remedy_stands_below() -> None:
    well = Check(topic="slurm", about="cpu", ok=True, found="taken")
    wrong = Check(topic="slurm", about="gpu", ok=False, found="refused", remedy="cluster.yaml line 3 [gpu]")
    console = Console(file=io.StringIO(), width=200)
    print_diagnosis(Diagnosis(online=False, checks=(well, wrong)), console)
    assert console.file.getvalue().splitlines() == [
        "x slurm: 1 of 2 well",
        "    cpu: taken",
        "  x gpu: refused",
        "      cluster.yaml line 3 [gpu]",
        "something is wrong; see the lines above",
    ]


def test_token_file_that_others_can_read_is_a_fault(tmp_path: Path, bare_machine: Path) -> None:
    path = bare_machine / ".synapseConfig"
    path.write_text("[default]\nauthtoken = canary-4\n")
    path.chmod(0o640)
    run = make_run(tmp_path, dataset("a", "synapse"), accept="open")
    (check,) = checks(look(run), "tokens")
    assert "can be read by others" in check.found
    assert check.remedy == f"Run: chmod 600 {path}"
    path.chmod(0o600)
    (check,) = checks(look(run), "tokens")
    assert (check.ok, check.found) == (True, "found in ~/.synapseConfig; wanted by a")


def test_token_in_the_keyring_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "secret", lambda variable, host: "canary-5" if host == "huggingface.co" else None)
    run = make_run(tmp_path, dataset("a", "huggingface", access="gated"))
    (check,) = checks(look(run), "tokens")
    assert (check.ok, check.found) == (True, "found in the keyring; wanted by a")


def test_netrc_that_others_can_read_is_a_fault(tmp_path: Path, bare_machine: Path) -> None:
    netrc = bare_machine / ".netrc"
    netrc.write_text("machine example.org login me password canary-3\n")
    netrc.chmod(0o644)
    run = make_run(tmp_path, accept="open")
    (check,) = checks(look(run), "netrc")
    assert not check.ok
    assert "can be read by others" in check.found
    assert "chmod 600" in check.remedy
    netrc.chmod(0o600)
    assert checks(look(run), "netrc")[0].ok
    netrc.write_text("machine example.org canary-3\n")
    assert "the netrc file is wrong at line" in checks(look(run), "netrc")[0].found
    assert "canary" not in look(run).model_dump_json()


def test_absent_client_names_the_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    (check,) = checks(look(make_run(tmp_path, dataset("a", "google_drive"), accept="open")), "clients")
    assert check.found == "needs the optional client gdown"
    assert check.remedy == "Install it with: pip install -r envs/hubs.txt"


def test_local_copies(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "SHA256SUMS.txt").write_text("")
    run = make_run(
        tmp_path, dataset("a"), dataset("b"), accept="open",
        local_copies={"a": str(tmp_path / "copy"), "b": str(tmp_path / "gone")},
    )  # fmt: skip
    first, second = checks(look(run), "local copies")
    assert (first.ok, second.ok) == (True, False)
    assert "does not exist" in second.found
    assert str(tmp_path / "gone") not in second.found + second.remedy


def test_a_copy_that_must_be_got_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrored = closed("c", "portal", mirrors=[HOSTS["zenodo"]])
    run = make_run(tmp_path, closed("a"), closed("b", "portal"), mirrored, closed("d", "kaggle_dataset"))
    found = checks(look(run), "local copies")
    assert [(check.about, check.ok) for check in found] == [("a", False), ("b", False)]
    assert "needs your own copy" in found[0].found
    assert "as a credentialed user, then set 'local_copies: {a: <folder>}'" in found[0].remedy
    assert "in person only" in found[1].found
    mark_fetched(run, "b")
    assert [check.about for check in checks(look(run), "local copies")] == ["a"]
    assert "tokens" in {check.topic for check in look(run, "d").checks}, "a token is missing, not a copy"


def test_short_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "free_space", lambda folder: (10, None))
    monkeypatch.setattr(doctor, "free_space", lambda folder: (10, None))
    wrong = [check for check in checks(look(make_run(tmp_path, dataset("a"), accept="open")), "disk") if not check.ok]
    assert [check.about for check in wrong] == ["a"]
    assert "10 are free" in wrong[0].found


REFUSALS = {
    "no token": BlockedError("a", "wants a login and no token was found", "Set HF_TOKEN"),
    "wrong token": BlockedError("a", "refused the token (401)", "Renew it"),
    "terms": BlockedError("a", "its terms are not accepted on the host's page", "Open the page"),
    "credentials": BlockedError("a", "your account has no credentialed access", "Apply for it"),
    "gone": BlockedError("a", "the file is gone (404)", "Correct the manifest"),
    "down": BlockedError("a", "the server is down (503)", "Try later"),
    "changed": MedhebError("a", "has another digest", "Look with `medheb refresh a`"),
}


class Client:
    """Answers or refuses as the test says."""

    def __init__(self, answer: list[RemoteFile] | MedhebError) -> None:
        self.answer = answer

    def listing(self, dataset: Dataset, host: Any) -> list[RemoteFile]:
        if isinstance(self.answer, MedhebError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_refusals_of_hosts_are_told_apart(tmp_path: Path, name: str) -> None:
    refusal = REFUSALS[name]
    run = make_run(tmp_path, dataset("a", "zenodo"), accept="open")
    diagnosis = look(run, online=True, client=lambda kind: Client(refusal))
    (check,) = checks(diagnosis, "hosts")
    assert not diagnosis.ok
    assert (check.found, check.remedy) == (refusal.fault, refusal.remedy)


def test_hosts_that_answer_and_hosts_that_are_never_asked(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a", "zenodo"), dataset("b", "package"), dataset("c", "portal"), accept="open")
    diagnosis = look(run, online=True, client=lambda kind: Client([RemoteFile("x", "y")]))
    assert diagnosis.online
    assert [check.found for check in checks(diagnosis, "hosts")] == [
        "zenodo answers, 1 files",
        "package: one version of a package cannot change",
        "portal: it hands out links in person only",
    ]
    empty = look(run, "a", online=True, client=lambda kind: Client([]))
    assert "lists none of the wanted files" in checks(empty, "hosts")[0].found
    assert not checks(look(run), "hosts"), "without --online nobody is asked"


def test_competition_as_one_archive_has_no_list_to_ask_for(tmp_path: Path) -> None:
    host = {"kind": "kaggle_competition", "name": "some-challenge"}
    run = make_run(tmp_path, dataset("a", host=host, files=[file("some-challenge.zip", None)]), accept="open")
    (check,) = checks(look(run, online=True, client=lambda kind: Client([RemoteFile("x", "")])), "hosts")
    assert check.found == "kaggle_competition: it tells of token and rules at the download only"


def test_drive_is_asked_for_the_name_as_it_lists_nothing(tmp_path: Path) -> None:
    asked: list[Dataset] = []

    class Drive(Client):
        def listing(self, dataset: Dataset, host: Any) -> list[RemoteFile]:
            asked.append(dataset)
            return super().listing(dataset, host)

    run = make_run(tmp_path, dataset("a", "google_drive"), accept="open")
    refusal = BlockedError("a", "has handed it out too often", "Try again after 24 hours")
    assert "too often" in checks(look(run, online=True, client=lambda kind: Drive(refusal)), "hosts")[0].found
    assert asked[0].files == ()


class Handler(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1].split(".")[0])
        body = b"<!doctype html><title>Quota exceeded</title>" if "page" in self.path else b"PK" + b"x" * 98
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if "page" in self.path else "application/zip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host on this machine that the real client of plain HTTPS talks to."""
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    monkeypatch.setenv("MEDHEB_HTTPS_URL", f"http://127.0.0.1:{serving.server_port}")
    yield
    serving.shutdown()
    serving.server_close()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("200.zip", "https answers, 1 files"),
        ("401.zip", "wants a login (401)"),
        ("403.zip", "forbids the file"),
        ("404.zip", "does not have the file (404)"),
        ("503.zip", "is down or overloaded (503)"),
        ("200.page.zip", "a web page ('Quota exceeded')"),
    ],
)
def test_real_client_of_plain_https(tmp_path: Path, server: None, path: str, found: str) -> None:
    run = make_run(tmp_path, dataset("a", files=[file(path)]), accept="open")
    (check,) = checks(look(run, online=True), "hosts")
    assert found in check.found
    assert check.ok == path.startswith("200.zip")
    assert bool(check.remedy) != check.ok
