"""ModelScope client against a loopback site, through the real ``modelscope-hub``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_samples import CANARY, TRANSFER, assert_nowhere, clean_home, dataset, sha256, source_file, tree
from servers.modelscope import REPOSITORY, REVISION, SIGNATURE, Scope

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts.modelscope import CLIENT, SETTINGS
from medheb.manifest.hosts import ModelScopeHost

pytest.importorskip("modelscope_hub", reason="optional client modelscope-hub is not installed")

BIG = bytes(range(256)) * 4000
FILES = {"data/a.zip": BIG, "data/b.csv": b"a,b\n", "README.md": b"# words\n"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scope]:
    clean_home(tmp_path, monkeypatch)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    with Scope(dict(FILES)) as running:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", running.api.url)
        yield running


def host(**changes: Any) -> ModelScopeHost:
    return ModelScopeHost(
        **{"kind": "modelscope", "repository": REPOSITORY, "revision": REVISION, "include": ("data/*",)} | changes
    )


def fetch_all(target: Path, *files: Any, **changes: Any) -> list[str]:
    chosen = host(**changes)
    manifest = dataset(chosen, *files)
    listed = CLIENT.listing(manifest, chosen)
    for file in listed:
        CLIENT.fetch(manifest, chosen, file, target / file.path, TRANSFER)
    return [file.path for file in listed]


def test_only_included_files_come_with_size_and_sha256(site: Scope, tmp_path: Path) -> None:
    listed = CLIENT.listing(dataset(host()), host())
    assert [(file.path, file.bytes, file.sha256) for file in listed] == [
        ("data/a.zip", len(BIG), sha256(BIG)),
        ("data/b.csv", 4, sha256(b"a,b\n")),
    ]
    fetch_all(tmp_path / "run")
    assert (tmp_path / "run/data/a.zip").read_bytes() == BIG
    assert tree(tmp_path) == ["run/data/a.zip", "run/data/b.csv"]


def test_a_long_listing_comes_page_by_page(site: Scope) -> None:
    site.files |= {f"data/{number:03d}.txt": b"x" for number in range(250)}
    assert len(CLIENT.listing(dataset(host(revision=None)), host(revision=None))) == 252
    assert len(site.api.requests) == 2


def test_no_cloud_is_asked_where_this_machine_stands(site: Scope, tmp_path: Path) -> None:
    fetch_all(tmp_path / "run")
    assert not any("internalAcceleration" in request.path for request in site.api.requests)


def test_no_token_wrong_token_and_no_right_are_told_apart(
    site: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.closed, site.token = True, CANARY
    with pytest.raises(BlockedError, match=r"wants a login and there is none.*MODELSCOPE_API_TOKEN"):
        fetch_all(tmp_path / "run")
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", "wrong_" + CANARY)
    with pytest.raises(BlockedError, match=r"does not know the token") as caught:
        fetch_all(tmp_path / "run")
    assert CANARY not in str(caught.value)
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", CANARY)
    assert len(fetch_all(tmp_path / "run")) == 2
    site.forbidden = True
    with pytest.raises(BlockedError, match=r"forbids it to this account.*datasets/Group/Set"):
        fetch_all(tmp_path / "run")


def test_gone(site: Scope, tmp_path: Path) -> None:
    for changes in ({"revision": "v9"}, {"repository": "Group/Lost"}):
        with pytest.raises(BlockedError, match=r"ModelScope no longer has it \(HTTP 404\)"):
            fetch_all(tmp_path / "run", **changes)
    file = CLIENT.listing(dataset(host()), host())[0]
    del site.files["data/a.zip"]
    with pytest.raises(BlockedError, match=r"no longer has it"):
        CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a.zip", TRANSFER)
    assert tree(tmp_path / "run") == []


def test_passing_trouble_passes_and_lasting_trouble_blocks(site: Scope, tmp_path: Path) -> None:
    site.fail = [429, 503]
    assert len(fetch_all(tmp_path / "run")) == 2
    file = CLIENT.listing(dataset(host()), host())[0]
    for status, fault in ((503, r"HTTP 503"), (429, r"limits how much")):
        site.fail = [status] * 99
        with pytest.raises(BlockedError, match=fault):
            fetch_all(tmp_path / "run")
        with pytest.raises(BlockedError, match=fault):
            CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a.zip", TRANSFER)


def test_site_down(site: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://localhost:9")
    monkeypatch.setattr("modelscope_hub._legacy_api.time.sleep", lambda _: None)
    with pytest.raises(BlockedError, match=r"ModelScope cannot be reached"):
        fetch_all(tmp_path / "run")


def test_a_cut_transfer_goes_on_where_it_stopped(site: Scope, tmp_path: Path) -> None:
    site.cut_once = 500_000
    fetch_all(tmp_path / "run", include=("data/a.zip",))
    assert (tmp_path / "run/data/a.zip").read_bytes() == BIG
    assert site.store.requests[-1].headers["range"].startswith("bytes=")


def test_wrong_content_is_not_kept(site: Scope, tmp_path: Path) -> None:
    site.served["data/b.csv"] = b"c,d\n"
    with pytest.raises(MedhebError, match=sha256(b"a,b\n")):
        fetch_all(tmp_path / "run", include=("data/b.csv",))
    site.served["data/b.csv"] = b"shorter or longer"
    with pytest.raises(MedhebError, match=r"sends another file than it lists"):
        fetch_all(tmp_path / "run", include=("data/b.csv",))
    assert tree(tmp_path / "run") == []
    with pytest.raises(MedhebError, match=r"lost\.csv.*a listing without it"):
        fetch_all(tmp_path / "run", source_file("lost.csv"))


def test_a_token_goes_to_the_site_and_nowhere_else(
    site: Scope,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    site.token = CANARY
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", CANARY)
    fetch_all(tmp_path / "run")
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in site.api.requests)
    assert site.store.requests
    for request in site.store.requests:
        assert CANARY not in str(request.headers)
    printed = capfd.readouterr()
    assert_nowhere(CANARY, tmp_path, printed.out, printed.err, caplog.text)
    assert_nowhere(SIGNATURE, tmp_path, printed.out, printed.err, caplog.text)
