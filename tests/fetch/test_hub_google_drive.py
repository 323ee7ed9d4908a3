"""Google Drive client against a loopback Drive, through the real ``gdown``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from hub_samples import TRANSFER, clean_home, dataset, sha256, source_file, tree
from servers.google_drive import FILE_ID, Drive

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts.google_drive import CLIENT
from medheb.manifest.hosts import GoogleDriveHost

pytest.importorskip("gdown", reason="optional client gdown is not installed")

BODY = b"PK\x03\x04" + bytes(range(256)) * 8000
HOST = GoogleDriveHost(kind="google_drive", file_id=FILE_ID)


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drive]:
    clean_home(tmp_path, monkeypatch)
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    library = sys.modules["gdown.download"]
    monkeypatch.setattr(library, "_wait_or_cancel", lambda **_: None)
    with Drive(BODY) as running:

        def session() -> requests.Session:
            made = requests.Session()
            for prefix, adapter in running.adapters().items():
                made.mount(prefix, adapter)
            return made

        monkeypatch.setattr(library.requests, "session", session)
        monkeypatch.setattr("medheb.fetch.sessions._session", session)
        yield running


def fetch(target: Path, *files: Any, host: GoogleDriveHost = HOST) -> str:
    manifest = dataset(host, *files)
    (listed,) = CLIENT.listing(manifest, host)
    CLIENT.fetch(manifest, host, listed, target / listed.path, TRANSFER)
    return listed.path


@pytest.mark.parametrize("large", [False, True])
def test_small_and_large_files_come_whole(drive: Drive, tmp_path: Path, large: bool) -> None:
    drive.large = large
    assert fetch(tmp_path / "run", source_file("sub/USData.zip", BODY)) == "sub/USData.zip"
    assert (tmp_path / "run/sub/USData.zip").read_bytes() == BODY
    assert tree(tmp_path) == ["run/sub/USData.zip"]
    assert bool(drive.store.requests) is large


def test_without_a_name_in_the_manifest_drive_is_asked(drive: Drive, tmp_path: Path) -> None:
    assert fetch(tmp_path / "run") == "data.zip"


def test_with_a_name_listing_asks_nobody(drive: Drive) -> None:
    CLIENT.listing(dataset(HOST, source_file("a.zip")), HOST)
    assert drive.site.requests == []
    with pytest.raises(MedhebError, match=r"a Google Drive id is one file"):
        CLIENT.listing(dataset(HOST, source_file("a.zip"), source_file("b.zip")), HOST)


@pytest.mark.parametrize("large", [False, True])
def test_quota_page(drive: Drive, tmp_path: Path, large: bool) -> None:
    drive.quota, drive.large = True, large
    with pytest.raises(BlockedError, match=rf"too often.*24 hours.*https://drive.google.com/file/d/{FILE_ID}/view"):
        fetch(tmp_path / "run", source_file("a.zip"))
    assert tree(tmp_path / "run") == []


def test_a_page_in_place_of_the_file(drive: Drive, tmp_path: Path) -> None:
    drive.private = True
    with pytest.raises(BlockedError, match=r"web page without a link.*local_copies"):
        fetch(tmp_path / "run", source_file("a.zip"))
    drive.private, drive.body = False, b"<!DOCTYPE html><html><title>Sorry</title></html>"
    with pytest.raises(BlockedError, match=r"web page"):
        fetch(tmp_path / "run", source_file("a.zip"))
    assert tree(tmp_path / "run") == []


@pytest.mark.parametrize(("status", "fault"), [(429, r"\(429\)"), (503, r"\(503\)"), (403, r"\(403\)")])
def test_statuses(drive: Drive, tmp_path: Path, status: int, fault: str) -> None:
    drive.fail = [status]
    drive.fail *= 9
    with pytest.raises(BlockedError, match=fault):
        fetch(tmp_path / "run", source_file("a.zip"))


def test_gone(drive: Drive, tmp_path: Path) -> None:
    lost = GoogleDriveHost(kind="google_drive", file_id="1lostlostlost")
    with pytest.raises(BlockedError, match=r"does not have the file \(404\)"):
        fetch(tmp_path / "run", source_file("a.zip"), host=lost)


def test_down(drive: Drive, tmp_path: Path) -> None:
    drive.down = True
    with pytest.raises(BlockedError, match=r"Google Drive cannot be reached"):
        fetch(tmp_path / "run", source_file("a.zip"))


def test_a_cut_transfer_goes_on_where_it_stopped(drive: Drive, tmp_path: Path) -> None:
    drive.cut_once = 1_000_000
    fetch(tmp_path / "run", source_file("a.zip", BODY))
    assert (tmp_path / "run/a.zip").read_bytes() == BODY
    assert drive.site.requests[-1].headers["range"].startswith("bytes=")


def test_wrong_content_is_not_kept(drive: Drive, tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=sha256(b"other")):
        fetch(tmp_path / "run", source_file("a.zip", b"other").model_copy(update={"bytes": None}))
    assert tree(tmp_path / "run") == []
