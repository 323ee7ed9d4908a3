"""Files with an address of their own beside a host's, and members of a zip that is never downloaded whole."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dispatch_samples import a_run, content, delivered, loose, pinned
from hub_samples import clean_home
from servers.figshare import put_article
from servers.modelscope import REPOSITORY, REVISION, Scope
from servers.plain import Loopback, loopback
from servers.ranges import RangeServer, range_server
from servers.zenodo import put_record

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.fetch import sessions
from medheb.fetch.complete import read_complete
from medheb.fetch.hosts.modelscope import SETTINGS
from medheb.fetch.lock import LockedFile, lock_file, make_lock
from medheb.fetch.probe import probe
from medheb.fetch.remote import RemoteFile, client_for
from medheb.fetch.source import fetch_source
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import SourceFile, Unpack
from medheb.manifest.hosts import FigshareHost, GitHubHost, Host, HttpsHost, ModelScopeHost, ZenodoHost
from medheb.manifest.load import Run

ZENODO = ZenodoHost(kind="zenodo", record="77")
FIGSHARE = FigshareHost(kind="figshare", article=5, version=1)
GITHUB = GitHubHost(kind="github", repository="a/b", commit="ab" * 20)
NPZ, TABLE = b"npz" * 1000, b"id,label\n1,2\n"
SCAN = bytes(range(251)) * 400
BULK = 24_000_000
WANTED = Unpack(include=("*records.csv", "*.nii.gz"), max_bytes=1_000_000, remote=True)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with loopback() as running:
        for name in ("ZENODO", "FIGSHARE", "HTTPS", "GITHUB_RAW"):
            monkeypatch.setenv(f"MEDHEB_{name}_URL", running.url)
            monkeypatch.delenv(f"{name}_TOKEN", raising=False)
        yield running


def zipped(members: Mapping[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        for name, body in members.items():
            archive.writestr(zipfile.ZipInfo(name), body)
    return plain.getvalue()


ARCHIVE = zipped({"Scans/bulk.raw": bytes(BULK), "Scans/records.csv": TABLE, "Scans/1/1.nii.gz": SCAN})


@pytest.fixture
def store(server: Loopback) -> Iterator[RangeServer]:
    """An article whose download leads to another server, as at figshare."""
    with range_server(ARCHIVE) as running:
        put_article(server, 5, 1, {"Scans.zip": ARCHIVE}, page=10)
        server.moved["/ndownloader/files/53187695"] = running.url
        yield running


def archive(**changes: Any) -> SourceFile:
    known = {"bytes": len(ARCHIVE), "md5": hashlib.md5(ARCHIVE).hexdigest()}
    return loose("Scans.zip", **(known | changes))


def at(url: str, file: SourceFile) -> SourceFile:
    """A manifest's addresses are https; those of these servers are not."""
    return file.model_copy(update={"url": url})


def test_few_members_of_a_large_zip_need_few_bytes(server: Loopback, store: RangeServer, layout: Layout) -> None:
    run = a_run(layout, FIGSHARE, archive(), unpack=WANTED)
    assert delivered(run) == {"Scans/records.csv": TABLE, "Scans/1/1.nii.gz": SCAN}
    assert store.sent < BULK // 2
    (came,) = read_complete(layout.sources / "sample/COMPLETE.json").archives
    assert (came.path, came.bytes, came.sha256) == ("Scans.zip", len(ARCHIVE), None)
    assert came.digest_source.startswith("not digested as a whole")
    assert sorted(path.name for path in (layout.sources / "sample").iterdir()) == [
        "COMPLETE.json",
        "files",
        "status.json",
    ]
    asked = len(server.requests)
    delivered(run)
    assert len(server.requests) == asked, "a complete source asks nobody"
    (layout.source_files("sample") / "Scans/records.csv").unlink()
    assert delivered(run)["Scans/records.csv"] == TABLE


def test_members_and_other_files_of_one_source(
    server: Loopback, store: RangeServer, layout: Layout, tmp_path: Path
) -> None:
    put_article(server, 5, 1, {"Scans.zip": ARCHIVE, "labels.csv": TABLE}, page=10)
    server.moved["/ndownloader/files/53187695"] = store.url
    run = a_run(layout, FIGSHARE, unpack=WANTED)
    assert delivered(run) == {"Scans/records.csv": TABLE, "Scans/1/1.nii.gz": SCAN, "labels.csv": TABLE}
    labels = read_complete(layout.sources / "sample/COMPLETE.json").archives[0]
    assert (labels.path, labels.sha256) == ("labels.csv", hashlib.sha256(TABLE).hexdigest())


def test_replaced_archive_is_refused_before_a_byte_of_it_comes(
    server: Loopback, store: RangeServer, layout: Layout
) -> None:
    status = fetch_source(a_run(layout, FIGSHARE, archive(md5="0" * 32), unpack=WANTED), "sample")
    assert (status.state, "upstream changed: expected md5 000" in status.reason) == ("failed", True)
    assert store.asked == []


@pytest.mark.parametrize("manner", ["ignores ranges", "web page", "refuses"])
def test_server_that_does_not_serve_pieces(server: Loopback, store: RangeServer, layout: Layout, manner: str) -> None:
    store.misbehaviour = manner
    status = fetch_source(a_run(layout, FIGSHARE, archive(), unpack=WANTED), "sample")
    assert status.state == "blocked"
    assert status.reason.startswith("sample: Scans.zip: ")
    assert "s3cret" not in status.reason + status.remedy
    assert list(content(layout.sources)) == ["sample/status.json"]


def test_pattern_without_a_member(server: Loopback, store: RangeServer, layout: Layout) -> None:
    rules = WANTED.model_copy(update={"include": ("*records.csv", "*.dcm")})
    status = fetch_source(a_run(layout, FIGSHARE, archive(), unpack=rules), "sample")
    assert (status.state, "no file that matches unpack.include '*.dcm'" in status.reason) == ("failed", True)
    assert list(content(layout.sources)) == ["sample/status.json"]


def test_sha256_that_could_not_be_checked(server: Loopback, store: RangeServer, layout: Layout) -> None:
    status = fetch_source(a_run(layout, FIGSHARE, pinned("Scans.zip", ARCHIVE), unpack=WANTED), "sample")
    assert (status.state, "a sha256 of Scans.zip, which cannot be checked" in status.reason) == ("failed", True)
    assert "Set unpack.remote to false" in status.remedy
    assert store.asked == []


def test_host_without_addresses(layout: Layout, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    put_record(server, "77", {"a.zip": zipped({"a": b"1"})})
    listed = [RemoteFile("a.zip", "0123abc:a.zip", 100)]
    monkeypatch.setattr(type(client_for("zenodo")), "listing", lambda *_: listed)
    status = fetch_source(a_run(layout, ZENODO, unpack=WANTED), "sample")
    assert (status.state, "no address that can be read in pieces" in status.reason) == ("failed", True)


def test_named_files_of_host_and_addresses(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "other": b"x"})
    server.files["/elsewhere/split.json"] = TABLE
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), at(f"{server.url}/elsewhere/split.json", loose("x/split.json")))
    assert delivered(run) == {"a.npz": NPZ, "x/split.json": TABLE}
    asked = len(server.requests)
    assert delivered(run) == {"a.npz": NPZ, "x/split.json": TABLE}
    assert len(server.requests) == asked


def only_addresses(server: Loopback, layout: Layout, *names: str, host: Host = ZENODO, **changes: Any) -> Run:
    server.files |= {f"/elsewhere/{name}": name.encode() * 9 for name in names}
    return a_run(layout, host, *(at(f"{server.url}/elsewhere/{name}", loose(name)) for name in names), **changes)


def test_manifest_with_addresses_only_takes_all_else_that_the_host_lists(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE, "q.csv": b"the host's own"})
    run = only_addresses(server, layout, "q.csv")
    assert delivered(run) == {"a.npz": NPZ, "b.csv": TABLE, "q.csv": b"q.csv" * 9}
    asked = len(server.requests)
    delivered(run)
    assert len(server.requests) == asked
    more = only_addresses(server, layout, "q.csv", "r.csv")
    assert delivered(more) == {"a.npz": NPZ, "b.csv": TABLE, "q.csv": b"q.csv" * 9, "r.csv": b"r.csv" * 9}


def test_host_that_lists_nothing_is_not_asked_for_more(server: Loopback, layout: Layout) -> None:
    host = HttpsHost(kind="https", base="https://example.org/data/")
    run = only_addresses(server, layout, "q.csv", host=host)
    assert delivered(run) == {"q.csv": b"q.csv" * 9}
    asked = len(server.requests)
    delivered(run)
    assert len(server.requests) == asked


def test_file_that_is_missing_at_the_host_still_is_refused(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"b.csv": TABLE})
    server.files["/q.csv"] = TABLE
    status = fetch_source(a_run(layout, ZENODO, loose("a.npz"), at(f"{server.url}/q.csv", loose("q.csv"))), "sample")
    assert (status.state, "a.npz: upstream changed" in status.reason) == ("failed", True)


@pytest.mark.parametrize(
    ("body", "state", "reason"), [(None, "blocked", "404"), (b"other", "failed", "upstream changed")]
)
def test_trouble_with_an_address_names_the_file(
    server: Loopback, layout: Layout, body: bytes | None, state: str, reason: str
) -> None:
    put_record(server, "77", {"b.csv": TABLE})
    if body:
        server.files["/q.csv"] = body
    status = fetch_source(a_run(layout, ZENODO, at(f"{server.url}/q.csv", pinned("q.csv", TABLE))), "sample")
    assert status.state == state
    assert status.reason.startswith("sample: q.csv: ")
    assert reason in status.reason
    assert not layout.source_files("sample").exists()


def test_listing_leaves_files_with_addresses_to_others(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE})
    client, elsewhere = client_for("zenodo"), at(f"{server.url}/q.csv", loose("q.csv"))
    for named, expected in (((loose("a.npz"),), ["a.npz"]), ((), ["a.npz", "b.csv"])):
        dataset = a_run(layout, ZENODO, *named, elsewhere).datasets["sample"]
        assert [file.path for file in client.listing(dataset, ZENODO)] == expected
    with pytest.raises(MedhebError, match=r"c\.npz: upstream changed"):
        client.listing(a_run(layout, ZENODO, loose("c.npz"), elsewhere).datasets["sample"], ZENODO)


def test_probe_sends_no_token_to_another_address(
    server: Loopback, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "canary-77")
    server.files |= {"/q.csv": TABLE, "/a/b/p.csv": TABLE}
    dataset = a_run(layout, GITHUB, loose("p.csv"), at(f"{server.url}/q.csv", loose("q.csv"))).datasets["sample"]
    for name, address in (("p.csv", "/a/b/p.csv"), ("q.csv", "/q.csv")):
        assert probe(dataset, RemoteFile(name, server.url + address), Transfer()).bytes == len(TABLE)
    sent = [headers.get("Authorization") for _, headers in server.requests]
    assert sent == ["Bearer canary-77", None]


def test_lock_of_a_host_says_nothing_of_files_elsewhere(
    server: Loopback, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE})
    run = only_addresses(server, layout, "q.csv")
    (named,) = run.datasets["sample"].files
    sha256 = hashlib.sha256(b"q.csv" * 9).hexdigest()
    run.datasets["sample"] = run.datasets["sample"].model_copy(
        update={"files": (named.model_copy(update={"sha256": sha256}),)}
    )
    first = delivered(run)
    put_lock(run, {"a.npz": NPZ, "b.csv": TABLE})
    asked = len(server.requests)
    assert delivered(run) == first
    assert len(server.requests) == asked, "the lock tells of what came"
    put_record(server, "77", {"a.npz": NPZ})
    put_lock(run, {"a.npz": NPZ})
    assert delivered(run) == {"a.npz": NPZ, "q.csv": b"q.csv" * 9}, "only what the manifest names is pinned"


def put_lock(run: Run, bodies: Mapping[str, bytes]) -> None:
    """A lock as `medheb refresh` leaves it after it saw these files at the host."""
    files = [
        LockedFile(path=path, bytes=len(body), sha256=None, md5=hashlib.md5(body).hexdigest())
        for path, body in bodies.items()
    ]
    path = lock_file(run, "sample")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, make_lock(run.datasets["sample"], files, "2026-01-01").model_dump(mode="json"))


def test_addresses_beside_a_hub(
    server: Loopback, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shape of M3D: archives that the hub lists, a table from elsewhere."""
    pytest.importorskip("modelscope_hub", reason="optional client modelscope-hub is not installed")
    clean_home(tmp_path, monkeypatch)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    host = ModelScopeHost(kind="modelscope", repository=REPOSITORY, revision=REVISION, include=("cases/*",))
    with Scope({"cases/1.zip": zipped({"1/2.png": b"two"}), "cases/all.json": b"{}", "README.md": b"no"}) as site:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", site.api.url)
        run = only_addresses(server, layout, "q.csv", host=host, unpack=Unpack(include=("*",), max_bytes=1000))
        assert delivered(run) == {"1/2.png": b"two", "cases/all.json": b"{}", "q.csv": b"q.csv" * 9}
        asked = len(site.api.requests)
        delivered(run)
        assert len(site.api.requests) == asked
