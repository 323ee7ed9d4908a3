"""Clients of hosts with plain HTTP APIs, against loopback servers that answer as those hosts do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fetch_samples import WHEEL, WHEEL_MEMBERS, make_zip, pin
from servers.figshare import put_article
from servers.github import put_commit
from servers.osf import put_project
from servers.plain import Loopback, loopback
from servers.zenodo import put_record

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import sessions
from medheb.fetch.hosts import figshare
from medheb.fetch.listing import compare
from medheb.fetch.remote import RemoteFile, client_for
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import AcceptedDigest, Dataset, Licence, Recipe, SourceFile
from medheb.manifest.hosts import (
    FigshareHost,
    GitHubHost,
    Host,
    HttpsHost,
    OsfHost,
    PackageHost,
    PortalHost,
    TorrentHost,
    ZenodoHost,
)

FILES = {"a.npz": b"first" * 400, "b.csv": b"second\n", "c d.npz": b"third" * 300}
COMMIT = "0123456789" * 4
TRIES = Transfer(attempts=2)
CANARY = "canary-77aa01"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("ZENODO_TOKEN", "FIGSHARE_TOKEN", "OSF_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with loopback() as running:
        for name in ("ZENODO", "FIGSHARE", "OSF", "GITHUB_RAW", "HTTPS"):
            monkeypatch.setenv(f"MEDHEB_{name}_URL", running.url)
        yield running


def source_file(path: str, content: bytes, **changes: Any) -> SourceFile:
    fields: dict[str, Any] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return SourceFile(path=path, digest_source="the test", **(fields | changes))


def a_dataset(host: Host, *files: SourceFile) -> Dataset:
    return Dataset(
        id="sample",
        title="A sample",
        form="2d",
        modality=("text",),
        access="open",
        licence=Licence(spdx=None, url="https://example.org"),
        redistribution=True,
        show_content=True,
        host=host,
        files=files,
        files_note="none" if not files else "",
        recipe=Recipe(name="sample", version=1),
        images="2D_Images/sample",
        links=("https://example.org",),
        citation="The tests",
    )


def fetched(dataset: Dataset, folder: Path) -> dict[str, bytes]:
    """Everything that the client of the dataset's host delivers."""
    client = client_for(dataset.host.kind)
    came = {}
    for number, file in enumerate(client.listing(dataset, dataset.host)):
        target = folder / str(number) / file.path
        client.fetch(dataset, dataset.host, file, target, TRIES)
        came[file.path] = target.read_bytes()
    return came


def put(server: Loopback, kind: str, files: Mapping[str, bytes] = FILES) -> Host:
    """Publish files at a host of one kind."""
    if kind == "zenodo":
        put_record(server, "10519652", files)
        return ZenodoHost(kind="zenodo", record="10519652")
    if kind == "figshare":
        put_article(server, 28505276, 1, files, 1000)
        return FigshareHost(kind="figshare", article=28505276, version=1)
    if kind == "osf":
        put_project(server, "cuk24", files)
        return OsfHost(kind="osf", node="cuk24")
    if kind == "github":
        put_commit(server, "pubmedqa/pubmedqa", COMMIT, files)
        return GitHubHost(kind="github", repository="pubmedqa/pubmedqa", commit=COMMIT)
    server.files.update({f"/2019/{quote(name)}": content for name, content in files.items()})
    return HttpsHost(kind="https", base="https://example.org/2019/")


@pytest.mark.parametrize("kind", ["zenodo", "figshare", "osf"])
def test_hosts_that_list(server: Loopback, tmp_path: Path, kind: str) -> None:
    host = put(server, kind)
    listed = client_for(kind).listing(a_dataset(host), host)
    assert [file.path for file in listed] == sorted(FILES)
    for file in listed:
        assert file.bytes == len(FILES[file.path])
        assert file.md5 == hashlib.md5(FILES[file.path]).hexdigest()
        assert (file.sha256 is not None) == (kind == "osf")
    assert fetched(a_dataset(host), tmp_path) == FILES


@pytest.mark.parametrize("kind", ["zenodo", "figshare", "osf", "github", "https"])
def test_only_what_the_manifest_names(server: Loopback, tmp_path: Path, kind: str) -> None:
    host = put(server, kind)
    dataset = a_dataset(
        host, source_file("c d.npz", FILES["c d.npz"]), source_file("a.npz", FILES["a.npz"], sha256=None)
    )
    assert fetched(dataset, tmp_path) == {name: FILES[name] for name in ("a.npz", "c d.npz")}
    assert not [path for path in server.paths() if "b.csv" in path]


@pytest.mark.parametrize("kind", ["zenodo", "figshare", "osf"])
def test_a_file_that_is_gone(server: Loopback, kind: str) -> None:
    host = put(server, kind)
    dataset = a_dataset(host, source_file("gone.npz", b"x"), source_file("lost.npz", b"x"))
    with pytest.raises(
        MedhebError, match=r"sample: gone\.npz: upstream changed: expected this file and 1 more at sample"
    ):
        client_for(kind).listing(dataset, host)


@pytest.mark.parametrize("kind", ["zenodo", "figshare", "osf"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [("404", "404"), ("403", "403"), ("503", "503"), ("429", "429"), ("quota page", "web page"), ("drop", "cut")],
)
def test_trouble_with_the_listing(server: Loopback, kind: str, fault: str, words: str) -> None:
    host = put(server, kind)
    server.faults = {path: [f"always {fault}"] for path in server.answers}  # type: ignore[assignment]
    with pytest.raises(BlockedError, match=words) as caught:
        client_for(kind).listing(a_dataset(host), host)
    assert caught.value.where.startswith("sample: ")
    assert caught.value.remedy


@pytest.mark.parametrize("kind", ["zenodo", "figshare", "osf"])
@pytest.mark.parametrize("answer", [{}, {"files": [{"key": "a"}], "data": [{}], "links": {}}, [], "text"])
def test_answers_of_another_form(server: Loopback, kind: str, answer: object) -> None:
    host = put(server, kind)
    server.answers = dict.fromkeys(server.answers, answer)
    with pytest.raises(MedhebError, match="another form"):
        client_for(kind).listing(a_dataset(host), host)


def test_osf_folders_and_pages(server: Loopback, tmp_path: Path) -> None:
    files = {
        f"{folder}{name}.bin": f"{folder}{name}".encode() * 300 for folder in ("", "T1/", "T2/") for name in "abcde"
    }
    put_project(server, "cuk24", files, page=2)
    host = OsfHost(kind="osf", node="cuk24")
    assert fetched(a_dataset(host), tmp_path) == files


def test_figshare_pages_and_newest_version(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figshare, "PAGE_SIZE", 2)
    put_article(server, 7, None, FILES, 2)
    assert fetched(a_dataset(FigshareHost(kind="figshare", article=7)), tmp_path) == FILES
    put_article(server, 8, 1, FILES, 2)
    server.answers["/articles/8/versions/1"]["files"][0]["is_link_only"] = True
    host = FigshareHost(kind="figshare", article=8, version=1)
    with pytest.raises(BlockedError, match=r"only links to 'a\.npz' elsewhere"):
        client_for("figshare").listing(a_dataset(host), host)


@pytest.mark.parametrize("kind", ["figshare", "osf"])
def test_links_that_are_not_https(server: Loopback, kind: str) -> None:
    host = put(server, kind)
    text = {"figshare": "download_url", "osf": "download"}[kind]
    for answer in server.answers.values():
        for entry in answer["files" if kind == "figshare" else "data"]:
            (entry if kind == "figshare" else entry["links"])[text] = "http://example.org/a"
    with pytest.raises(MedhebError, match=r"address at example\.org is not https"):
        client_for(kind).listing(a_dataset(host), host)


@pytest.mark.parametrize(
    ("kind", "path", "variable"),
    [
        ("zenodo", "/api/records/10519652", "ZENODO_TOKEN"),
        ("figshare", "/articles/28505276/versions/1", "FIGSHARE_TOKEN"),
        ("osf", "/nodes/cuk24/files/osfstorage/", "OSF_TOKEN"),
        ("github", f"/pubmedqa/pubmedqa/{COMMIT}/b.csv", "GITHUB_TOKEN"),
    ],
)
def test_tokens(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, variable: str
) -> None:
    dataset = a_dataset(put(server, kind), source_file("b.csv", FILES["b.csv"]))
    server.tokens[path] = f"Bearer {CANARY}"
    with pytest.raises(BlockedError, match=rf"wants a login \(401\)\. Set the environment variable {variable}"):
        fetched(dataset, tmp_path)
    monkeypatch.setenv(variable, CANARY + "-wrong")
    with pytest.raises(BlockedError, match="with your login") as caught:
        fetched(dataset, tmp_path)
    assert CANARY not in str(caught.value)
    monkeypatch.setenv(variable, CANARY)
    assert fetched(dataset, tmp_path) == {"b.csv": FILES["b.csv"]}


def test_api_address_must_be_safe(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    host = put(server, "zenodo")
    monkeypatch.setenv("MEDHEB_ZENODO_URL", "http://zenodo.example.org")
    with pytest.raises(MedhebError, match="environment variable MEDHEB_ZENODO_URL: its address"):
        client_for("zenodo").listing(a_dataset(host), host)


def test_github_needs_a_commit_and_names(server: Loopback) -> None:
    client = client_for("github")
    loose = GitHubHost(kind="github", repository="a/b")
    with pytest.raises(BlockedError, match=r"pins no commit of a/b.*Set host\.commit"):
        client.listing(a_dataset(loose, source_file("a", b"")), loose)
    pinned = GitHubHost(kind="github", repository="a/b", commit=COMMIT)
    with pytest.raises(BlockedError, match=r"names no files, and a/b cannot list them.*local_copies\.sample"):
        client.listing(a_dataset(pinned), pinned)


def test_a_file_with_its_own_url(server: Loopback, tmp_path: Path) -> None:
    host = put(server, "https")
    server.files["/elsewhere/x"] = FILES["a.npz"]
    file = source_file("a.npz", FILES["a.npz"]).model_copy(update={"url": f"{server.url}/elsewhere/x"})
    assert fetched(a_dataset(host, file), tmp_path) == {"a.npz": FILES["a.npz"]}
    assert server.paths() == ["/elsewhere/x"]


def test_torrents_are_information(tmp_path: Path) -> None:
    host = TorrentHost(kind="academic_torrents", info_hash=COMMIT)
    dataset = a_dataset(host, source_file("a.zip", b""))
    client = client_for("academic_torrents")
    (file,) = client.listing(dataset, host)
    with pytest.raises(BlockedError, match=rf"magnet:\?xt=urn:btih:{COMMIT} .* local_copies\.sample"):
        client.fetch(dataset, host, file, tmp_path / "a.zip", TRIES)
    assert list(tmp_path.iterdir()) == []


def test_portal_needs_a_person_or_a_link(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = PortalHost(kind="portal", name="stanford_aimi", page="https://aimi.example.org/page")
    dataset = a_dataset(host, source_file("a.npz", FILES["a.npz"]))
    client = client_for("portal")
    with pytest.raises(BlockedError, match=r"Stanford AIMI.*Visit https://aimi\.example\.org/page.*MEDHEB_URL_SAMPLE"):
        client.listing(dataset, host)
    path = f"/blob/x?sig={CANARY}"
    server.files["/blob/x"] = FILES["a.npz"]
    monkeypatch.setenv("MEDHEB_URL_SAMPLE", server.url + path)
    assert fetched(dataset, tmp_path) == {"a.npz": FILES["a.npz"]}
    server.faults[path] = ["403"]
    with pytest.raises(BlockedError, match="If the link in MEDHEB_URL_SAMPLE has expired") as caught:
        fetched(dataset, tmp_path)
    assert CANARY not in str(caught.value)
    assert [file.path for file in client.listing(a_dataset(host), host)] == ["x"]
    monkeypatch.setenv("MEDHEB_URL_SAMPLE", f"{server.url}/1 {server.url}/2")
    with pytest.raises(MedhebError, match="holds 2 links, the manifest names 1 files"):
        client.listing(dataset, host)


def test_package(shelf: Path, host: PackageHost, tmp_path: Path) -> None:
    dataset = a_dataset(host, pin(shelf / WHEEL))
    assert fetched(dataset, tmp_path / "came") == {WHEEL: make_zip(tmp_path / "again", WHEEL_MEMBERS).read_bytes()}
    assert [path.name for path in (tmp_path / "came").rglob("*") if path.is_file()] == [WHEEL]
    with pytest.raises(MedhebError, match="key 'files' has 0 entries"):
        client_for("package").listing(a_dataset(host), host)


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ({"bytes": 9}, "expected 5 bytes, got 9 bytes"),
        ({"md5": "0" * 32}, "expected md5 5d41402abc4b2a76b9719d911017c592, got md5 0000"),
        ({"sha256": "0" * 64}, "expected sha256 2cf24dba"),
    ],
)
def test_upstream_changed_is_found_before_any_transfer(listed: dict[str, Any], words: str) -> None:
    file = source_file("a", b"hello", md5=hashlib.md5(b"hello").hexdigest())
    dataset = a_dataset(ZenodoHost(kind="zenodo", record="1"), file)
    compare(dataset, [RemoteFile("a", "", 5, file.sha256, file.md5)])
    with pytest.raises(MedhebError, match=rf"sample: a: upstream changed: {words}.*'accepted'"):
        compare(dataset, [RemoteFile("a", "", **listed)])
    note = AcceptedDigest(sha256="0" * 64, note="an erratum of the publisher")
    forgiving = a_dataset(dataset.host, file.model_copy(update={"accepted": (note,)}))
    compare(forgiving, [RemoteFile("a", "", **listed)])


@pytest.mark.parametrize("path", ["../a", "/a", "a/../b", "a\\b", "C:a", "", "a/./b", "a\0"])
def test_harmful_names_in_a_listing(path: str) -> None:
    with pytest.raises(MedhebError, match=r"^sample: the host lists a"):
        compare(a_dataset(ZenodoHost(kind="zenodo", record="1")), [RemoteFile(path, "")])


def test_names_that_collide_in_a_listing() -> None:
    with pytest.raises(MedhebError, match="harmful name"):
        compare(a_dataset(ZenodoHost(kind="zenodo", record="1")), [RemoteFile("a", ""), RemoteFile("A", "")])
