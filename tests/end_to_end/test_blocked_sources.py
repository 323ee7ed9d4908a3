"""Sources that cannot be had stop nothing, and secrets that fetch them stay where they are."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from more_sources import CODES_FILE, HUB, PHYSIONET, SITE, add_source, content_of, select
from servers.huggingface import Hub
from servers.plain import Loopback, loopback
from tiny_benchmark import make_workspace, medheb, snakemake

HUB_TOKEN = "canary_hub_7Qd2f9a0"
PASSWORD = "canary_site_9Xc41be7"
LOGIN = base64.b64encode(f"reader:{PASSWORD}".encode()).decode()


@pytest.fixture
def site() -> Iterator[Loopback]:
    """A web server that knows one login."""
    with loopback() as server:
        server.files = {
            "/open/codes.xml": content_of("with_login"),
            "/closed/codes.xml": content_of("wrong_login"),
        }
        server.tokens = {"/open/codes.xml": f"Basic {LOGIN}", "/closed/codes.xml": "Basic of somebody else"}
        yield server


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub with one gated repository."""
    with Hub({CODES_FILE: content_of("gated_set")}, gated=True, token=HUB_TOKEN) as running:
        yield running


def states(run: Path) -> dict[str, str]:
    """State of each source's fetch."""
    folder = run / "results" / "sources"
    return {path.parent.name: json.loads(path.read_text())["state"] for path in folder.glob("*/status.json")}


def test_three_blocked_sources_leave_the_rest_and_are_named(tmp_path: Path, site: Loopback) -> None:
    run = make_workspace(tmp_path / "run")
    add_source(run, "unread", SITE, access="registration")
    add_source(run, "own_copy", PHYSIONET, files=[], files_note="not listed by the tests")
    add_source(run, "no_login", SITE | {"base": f"{SITE['base']}closed/"})
    select(run, "codes", "unread", "own_copy", "no_login")
    empty_home = {"HOME": str(tmp_path), "MEDHEB_HTTPS_URL": site.url}
    result = snakemake(run, "all", **empty_home)
    assert result.returncode == 0, result.stderr
    assert states(run) == {
        "codes": "ok",
        **dict.fromkeys(("unread", "own_copy", "no_login"), "blocked"),
    }
    reasons = {
        "unread": "its terms have not been accepted",
        "own_copy": "needs your own copy",
        "no_login": "wants a login (401)",
    }
    page = (run / "results" / "report" / "index.html").read_text()
    scores = run / "results" / "scores" / "random"
    for source, reason in reasons.items():
        status = json.loads((run / "results" / "sources" / source / "status.json").read_text())
        assert reason in status["reason"], status
        assert status["remedy"]
        cell = json.loads((scores / f"{source}_t2t.json").read_text())
        assert cell["status"]["state"] == "blocked"
        assert reason in cell["status"]["reason"]
        rows = [row for row in page.split("<tr") if f"Made-up source {source}" in row or f">{source}<" in row]
        assert any(reason in row for row in rows), f"the page does not say why {source} is blocked"
    assert json.loads((scores / "Codes_t2t.json").read_text())["status"]["state"] == "ok"
    assert "/closed/codes.xml" in site.paths()
    strict = snakemake(run, "all", "--config", "strict=true", **empty_home)
    assert strict.returncode != 0
    complaint = (run / "results" / "logs" / "complete.log").read_text()
    for source in reasons:
        assert f"{source}_t2t" in complaint
    assert (run / "results" / "report" / "index.html").exists()


def readings(content: bytes) -> Iterator[bytes]:
    """A file's bytes as they are, and what is packed in them, as in .gz, .zip and Snakemake's own records."""
    yield content
    for start in (b"\x1f\x8b", b"\x78\x9c", b"\x78\xda"):
        at = content.find(start)
        if at >= 0:
            unpacker = zlib.decompressobj(wbits=47)
            try:
                yield unpacker.decompress(content[at:])
            except zlib.error:
                continue


def test_tokens_that_were_used_stand_nowhere_in_the_run(tmp_path: Path, site: Loopback, hub: Hub) -> None:
    run = make_workspace(tmp_path / "run")
    add_source(run, "gated_set", HUB, access="gated")
    add_source(run, "with_login", SITE | {"base": f"{SITE['base']}open/"})
    add_source(run, "wrong_login", SITE | {"base": f"{SITE['base']}closed/"})
    select(run, "gated_set", "with_login", "wrong_login")
    home = tmp_path / "home"
    home.mkdir()
    netrc = home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login reader password {PASSWORD}\n")
    netrc.chmod(0o600)
    assert medheb(run, "accept", "gated_set", "--yes").returncode == 0
    secrets = {"HOME": str(home), "HF_TOKEN": HUB_TOKEN, "HF_ENDPOINT": hub.api.url, "MEDHEB_HTTPS_URL": site.url}
    result = snakemake(run, "all", **secrets)
    assert result.returncode == 0, result.stderr
    found = states(run)
    assert (found["gated_set"], found["with_login"], found["wrong_login"]) == ("ok", "ok", "blocked")
    assert any(request.headers.get("authorization") == f"Bearer {HUB_TOKEN}" for request in hub.api.requests)
    sent = {path: headers["Authorization"] for path, headers in site.requests}
    assert sent == {"/open/codes.xml": f"Basic {LOGIN}", "/closed/codes.xml": f"Basic {LOGIN}"}
    places = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    for part in (".snakemake", "results/logs", "results/benchmarks", "results/report", "results/sources"):
        assert any((run / part) in path.parents for path in places), f"{part} is not looked at"
    for secret in (HUB_TOKEN, PASSWORD, LOGIN):
        assert secret not in result.stdout + result.stderr
        for path in places:
            assert secret not in str(path)
            assert not any(secret.encode() in reading for reading in readings(path.read_bytes())), path
    # The search itself finds what it should find.
    planted = run / "results" / "logs" / "planted.gz"
    planted.write_bytes(gzip.compress(HUB_TOKEN.encode()))
    assert any(HUB_TOKEN.encode() in reading for reading in readings(planted.read_bytes()))
