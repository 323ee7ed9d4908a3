"""`medheb refresh`: a lock of what was seen, a readable difference, and no byte written without one."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from plan_samples import closed, dataset, file, make_run
from rich.console import Console

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import refresh as module
from medheb.fetch.lock import lock_file, read_lock
from medheb.fetch.probe import Headers
from medheb.fetch.refresh import Refresh, print_refresh, refresh
from medheb.fetch.remote import RemoteFile
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

SHA_1, SHA_2, MD5 = "1" * 64, "2" * 64, "3" * 32
SECRET = "https://example.org/x?signature=canary-1"


class Host:
    """A client that lists what the test says, and remembers how it was asked."""

    def __init__(self, *files: RemoteFile) -> None:
        self.files = list(files)
        self.asked: list[Dataset] = []
        self.error: MedhebError | None = None

    def listing(self, dataset: Dataset, host: Any) -> list[RemoteFile]:
        self.asked.append(dataset)
        if self.error:
            raise self.error
        return self.files


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    fake = Host(RemoteFile("b.zip", SECRET, 20, None, MD5), RemoteFile("a.zip", SECRET, 10, SHA_1))
    monkeypatch.setattr(module, "client_for", lambda kind: fake)
    return fake


def run_of(tmp_path: Path, *datasets: Dataset) -> Run:
    return make_run(tmp_path, *datasets, manifests="set")


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def text(result: Refresh) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_refresh(result, console)
    return console.file.getvalue()


ZENODO = {"files": [], "files_note": "listed by the host"}


def test_first_lock_holds_what_was_seen_and_no_address(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    result = refresh(run, "a", "2026-11-30")
    assert result.changed
    assert "first lock: 2 files with 30 bytes" in text(result)
    lock = read_lock(tmp_path / "set" / "locks" / "a.json")
    assert lock == result.lock
    assert [(entry.path, entry.bytes, entry.sha256, entry.md5) for entry in lock.files] == [
        ("a.zip", 10, SHA_1, None),
        ("b.zip", 20, None, MD5),
    ]
    assert "canary" not in (tmp_path / "set" / "locks" / "a.json").read_text()


def test_nothing_changed_leaves_the_bytes_alone_whatever_the_day_and_order(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    refresh(run, "a", "2026-11-30")
    path = lock_file(run, "a")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    host.files.reverse()
    result = refresh(run, "a", "2026-12-24")
    assert not result.changed
    assert text(result) == "a: nothing changed since 2026-11-30\n"
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_difference_is_readable(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    refresh(run, "a", "2026-11-30")
    host.files = [RemoteFile("a.zip", SECRET, 11, SHA_2), RemoteFile("c.zip", SECRET, None)]
    result = refresh(run, "a", "2026-12-24")
    assert result.differences == (
        "bytes: 30 -> unknown",
        "added    c.zip (unknown bytes)",
        "gone     b.zip",
        f"changed  a.zip: bytes 10 -> 11, sha256 {SHA_1[:12]} -> {SHA_2[:12]}",
    )
    assert result.lock.seen == "2026-12-24"
    assert "wrote" in text(result)


def test_long_difference_is_cut(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    refresh(run, "a")
    host.files += [RemoteFile(f"n{number:03d}.zip", SECRET, 1) for number in range(100)]
    lines = refresh(run, "a").differences
    assert lines[-1] == "... and 80 more"
    assert len(lines) < 30


def test_host_that_moved_is_a_difference(tmp_path: Path, host: Host) -> None:
    refresh(run_of(tmp_path, dataset("a", "zenodo", **ZENODO)), "a")
    moved = run_of(tmp_path, dataset("a", "zenodo", **ZENODO, host={"kind": "zenodo", "record": "2"}))
    assert refresh(moved, "a").differences == ("host.record: 1 -> 2",)


def test_commit_of_the_hub_is_recorded_where_none_is_pinned(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "huggingface", **ZENODO))
    host.files = [RemoteFile("x.parquet", f"{'c' * 40}:x.parquet", 5, SHA_1)]
    assert refresh(run, "a").lock.revision == "c" * 40
    host.files = [RemoteFile("x.parquet", f"{'d' * 40}:x.parquet", 5, SHA_1)]
    assert refresh(run, "a").differences == (f"revision: {'c' * 40} -> {'d' * 40}",)


def test_version_of_kaggle_is_recorded_where_none_is_pinned(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "kaggle_dataset", **ZENODO))
    host.files = [RemoteFile("set.zip", "4:")]
    assert refresh(run, "a").lock.revision == "4"


def test_host_that_tells_nothing_is_no_lock(tmp_path: Path, host: Host) -> None:
    host.files = [RemoteFile("set.zip", "")]
    with pytest.raises(MedhebError, match="tells nothing that could change"):
        refresh(run_of(tmp_path, dataset("a", "zenodo", **ZENODO)), "a")


def test_manifest_and_host_that_disagree_are_told(tmp_path: Path, host: Host) -> None:
    files = [file("a.zip", 10, SHA_2), file("b.zip", 21), file("z.zip", 1)]
    result = refresh(run_of(tmp_path, dataset("a", "zenodo", files=files)), "a")
    assert result.against_manifest == (
        "gone     z.zip",
        f"changed  a.zip: sha256 {SHA_2[:12]} -> {SHA_1[:12]}",
        "changed  b.zip: bytes 21 -> 20",
    )
    assert "host and manifest disagree" in text(result)
    assert host.asked[0].files == (), "asked without pins, so that the client fills nothing in"


def test_only_files_of_the_manifest_are_locked_and_alternates_are_right(tmp_path: Path, host: Host) -> None:
    entry = {**file("a.zip", 9, SHA_2), "accepted": [{"sha256": SHA_1, "note": "erratum of the publisher"}]}
    result = refresh(run_of(tmp_path, dataset("a", "zenodo", files=[entry])), "a")
    assert result.against_manifest == ()
    assert [locked.path for locked in result.lock.files] == ["a.zip"]


def test_paths_of_hidden_sources_are_neither_written_nor_printed(tmp_path: Path, host: Host) -> None:
    host.files = [RemoteFile("p10000032/s50414267.jpg", SECRET, 10, SHA_1)]
    files = [file("p10000032/s50414267.jpg", 12, SHA_1), file("p10000033/x.jpg")]
    run = run_of(tmp_path, closed("a", "synapse", files=files, files_note=""))
    shown = text(refresh(run, "a"))
    host.files = [RemoteFile("p10000032/s50414267.jpg", SECRET, 10, SHA_2)]
    again = refresh(run, "a")
    shown += text(again)
    assert any("digest of the list" in line for line in again.differences)
    assert "3 differences" in shown
    assert "p1000003" not in shown + lock_file(run, "a").read_text()


def test_hosts_without_a_list_are_asked_file_by_file(
    tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.files = [RemoteFile("a.zip", "https://example.org/a.zip")]
    marks = iter(['"one"', '"one"', '"two"'])
    monkeypatch.setattr(module, "probe", lambda dataset, file, transfer: Headers(1000, next(marks)))
    run = run_of(tmp_path, dataset("a"))
    assert refresh(run, "a").lock.files[0].mark == '"one"'
    assert not refresh(run, "a").changed
    assert refresh(run, "a").differences == ('changed  a.zip: mark "one" -> "two"',)
    assert host.asked[0].files[0].bytes is None


@pytest.mark.parametrize("kind", ["package", "physionet", "portal", "academic_torrents", "google_drive"])
def test_hosts_that_cannot_be_asked_say_so(tmp_path: Path, host: Host, kind: str) -> None:
    with pytest.raises(MedhebError, match=f"its host kind is {kind}.*nothing to refresh"):
        refresh(run_of(tmp_path, dataset("a", kind)), "a")


def test_refusal_of_the_host_leaves_the_lock(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    refresh(run, "a")
    before = lock_file(run, "a").read_bytes()
    host.error = BlockedError("a", "the server is down", "Try later")
    with pytest.raises(BlockedError, match="the server is down"):
        refresh(run, "a")
    assert lock_file(run, "a").read_bytes() == before


def test_faulty_answers_and_locks_are_refused(tmp_path: Path, host: Host) -> None:
    run = run_of(tmp_path, dataset("a", "zenodo", **ZENODO))
    with pytest.raises(MedhebError, match="source 'b': is not part of this run"):
        refresh(run, "b")
    host.files = [RemoteFile("../x", SECRET, 1)]
    with pytest.raises(MedhebError, match="host's list of a: key 'path'"):
        refresh(run, "a")
    host.files = [RemoteFile("x", SECRET, 1), RemoteFile("x", SECRET, 2)]
    with pytest.raises(MedhebError, match="holds a path twice"):
        refresh(run, "a")
    assert not lock_file(run, "a").exists()
    lock_file(run, "a").parent.mkdir(parents=True)
    lock_file(run, "a").write_text(json.dumps({"dataset": "a"}))
    with pytest.raises(MedhebError, match=r"a\.json: key 'host' is missing"):
        refresh(run, "a")


@pytest.mark.parametrize(("named", "locked"), [([], ["a.zip", "b.zip"]), ([file("a.zip", 10)], ["a.zip"])])
def test_files_with_addresses_of_their_own_are_not_the_hosts(
    tmp_path: Path, host: Host, named: list[dict[str, Any]], locked: list[str]
) -> None:
    elsewhere = file("q.csv", None) | {"url": "https://example.org/q.csv"}
    result = refresh(run_of(tmp_path, dataset("a", "zenodo", files=[*named, elsewhere])), "a")
    assert [entry.path for entry in result.lock.files] == locked
    assert result.against_manifest == ()
