"""A user's own copy is recognised in every layout and judged file by file, and no id of it gets out."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from make_physionet import (
    BLANKS,
    CANARIES,
    CONTENT,
    LAYOUTS,
    PICTURE,
    REPORT,
    SLUG,
    VERSION,
    fill,
    physionet,
    run_with,
    source,
    sums_text,
)

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import digest_cache, progress
from medheb.fetch.hosts.physionet import CLIENT
from medheb.fetch.local_copy import verify_local, verify_local_copy
from medheb.fetch.located import files_of, local_copy_file, read_local_copy
from medheb.fetch.remote import client_for
from medheb.fetch.verification import Verification, write_list
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HttpsHost
from medheb.manifest.load import Run
from medheb.manifest.task import Task

pytestmark = pytest.mark.host("physionet")

NEEDED_COUNT = len(CONTENT) - 1  # all but LICENSE.txt
DATASET = source(physionet())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bare project root."""
    return fill(tmp_path / "copy")


def run_of(tmp_path: Path, copy: Path, dataset: Dataset = DATASET) -> Run:
    return run_with(tmp_path / "run", dataset, copy)


def states(verification: Verification) -> dict[str, str]:
    return {verdict.path: verdict.state for verdict in verification.files if verdict.state != "ok"}


def judged(tmp_path: Path, copy: Path, dataset: Dataset = DATASET, **options: Any) -> Verification:
    return verify_local(run_of(tmp_path, copy, dataset), dataset, **options)


def written(folder: Path) -> bytes:
    return b"\n".join(os.fsencode(path) + path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("end", ["above", "root"])
def test_every_layout_gives_the_same_verdict(layout: str, end: str, tmp_path: Path) -> None:
    name, make = LAYOUTS[layout]
    given, root = make(tmp_path)
    copy = given if end == "above" else root
    found = judged(tmp_path, copy)
    assert (found.slug, found.version, found.layout, found.root) == (SLUG, VERSION, name, root)
    assert found.counts == {"ok": NEEDED_COUNT}
    assert found.bytes == sum(len(value) for path, value in CONTENT.items() if path != "LICENSE.txt")
    assert found.list_digest == hashlib.sha256(sums_text(CONTENT).encode()).hexdigest()
    whole = judged(tmp_path, copy, full=True)
    assert whole.counts == {"ok": len(CONTENT)}
    assert (found.extra, whole.extra) == (None, len(list(root.rglob("index.html"))))
    assert verify_local_copy(run_of(tmp_path, copy), DATASET).ok


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_flipped_byte_is_found_in_every_layout(layout: str, tmp_path: Path) -> None:
    given, root = LAYOUTS[layout][1](tmp_path)
    assert judged(tmp_path, given).ok
    content = bytearray((root / PICTURE).read_bytes())
    content[3333] ^= 1
    (root / PICTURE).write_bytes(content)
    assert states(judged(tmp_path, given)) == {PICTURE: "mismatch"}
    status = verify_local_copy(run_of(tmp_path, given), DATASET)
    assert (status.state, status.origin) == ("failed", "fetch toy")
    assert status.reason == f"local copy of toy: 1 of {NEEDED_COUNT} needed files differs"
    assert "medheb verify-copy toy --list FILE" in status.remedy
    assert not local_copy_file(run_of(tmp_path, given).layout, "toy").exists()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that the package logs, down to the last debug line."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("medheb")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_nothing_of_a_damaged_copy_gets_out(
    tmp_path: Path, logged: io.StringIO, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    given, root = LAYOUTS["wget"][1](tmp_path / "p19999999")
    (root / REPORT).unlink()
    (root / PICTURE).write_bytes(b"")
    (root / BLANKS).write_bytes(b"canary")
    run = run_of(tmp_path, given)
    status = verify_local_copy(run, DATASET)
    found = verify_local(run, DATASET, full=True)
    trouble = found.trouble()
    lines = logged.getvalue()
    assert f"{len(CONTENT)} listed, {len(CONTENT)} checked: 3 ok, 1 mismatch, 1 missing, 1 partial" in lines
    assert "MB/s" in lines
    told = [lines, *capfd.readouterr(), status.model_dump_json(), str(trouble), repr(trouble), repr(found)]
    told += [repr(found.files), os.fsdecode(written(tmp_path / "run"))]
    assert not [canary for canary in CANARIES for text in told if canary in text]


def test_nothing_of_a_right_copy_gets_out_but_its_root(tmp_path: Path, logged: io.StringIO) -> None:
    given, root = LAYOUTS["zip"][1](tmp_path)
    run = run_of(tmp_path, given)
    assert verify_local_copy(run, DATASET).ok
    found, lines = os.fsdecode(written(tmp_path / "run")), logged.getvalue()
    assert f"{NEEDED_COUNT} ok" in lines
    assert not [canary for canary in CANARIES if canary in found or canary in lines]
    assert str(root) not in lines
    known = read_local_copy(local_copy_file(run.layout, "toy"))
    assert known.root == str(root)
    assert (known.layout, known.slug, known.version, known.full) == ("ZIP folder", SLUG, VERSION, False)
    assert (known.listed, known.checked, known.counts) == (len(CONTENT), NEEDED_COUNT, {"ok": NEEDED_COUNT})
    assert known.list_sha256 == hashlib.sha256(sums_text(CONTENT).encode()).hexdigest()


def test_missing_truncated_empty_and_broken_transfers(root: Path, tmp_path: Path) -> None:
    (root / REPORT).unlink()
    (root / PICTURE).write_bytes(CONTENT[PICTURE][:100])
    (root / BLANKS).write_bytes(b"")
    (root / "split.csv.gz").rename(root / "split.csv.gz_.gstmp")
    found = judged(tmp_path, root)
    assert states(found) == {REPORT: "missing", PICTURE: "mismatch", BLANKS: "partial", "split.csv.gz": "partial"}
    trouble = found.trouble()
    assert trouble is not None
    assert trouble.fault == "1 of 5 needed files differs, 1 is missing, 2 are partial downloads"


@pytest.mark.parametrize("tail", [".part", "_.gstmp", ".5bA4c1F0", ".crdownload", ".aria2"])
def test_leftovers_of_download_clients(tail: str, root: Path, tmp_path: Path) -> None:
    (root / REPORT).rename(root / (REPORT + tail))
    found = judged(tmp_path, root)
    assert states(found) == {REPORT: "partial"}
    assert isinstance(found.trouble(), BlockedError)


def test_an_empty_file_that_is_listed_as_empty_is_right(tmp_path: Path) -> None:
    root = fill(tmp_path / "copy", {**CONTENT, "empty.csv": b""})
    assert judged(tmp_path, root).counts == {"ok": NEEDED_COUNT + 1}


def test_unreadable_files(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / REPORT).unlink()
    (root / REPORT).mkdir()
    (root / PICTURE).unlink()
    os.mkfifo(root / PICTURE)
    (root / BLANKS).unlink()
    (root / BLANKS).symlink_to(BLANKS)
    honest = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).endswith("split.csv.gz"):
            raise PermissionError(13, "Permission denied", str(path))
        return honest(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    found = judged(tmp_path, root)
    assert states(found) == dict.fromkeys([REPORT, PICTURE, BLANKS, "split.csv.gz"], "unreadable")
    assert {verdict.note for verdict in found.files if verdict.path == "split.csv.gz"} == {"Permission denied"}


def test_links_that_leave_the_root_are_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.move(root / REPORT, outside / "report")
    (root / REPORT).symlink_to(outside / "report")
    shutil.move(root / "files/p18", outside / "p18")
    (root / "files/p18").symlink_to(outside / "p18")
    shutil.move(root / BLANKS, root / "inner")
    (root / BLANKS).symlink_to("inner")
    found = judged(tmp_path, root, full=True)
    other = next(path for path in CONTENT if path.startswith("files/p18"))
    assert states(found) == {REPORT: "unreadable", other: "unreadable"}
    assert found.extra == 1  # `inner`; what lies behind a link is not counted


def test_an_accepted_alternate_is_told_with_its_note(root: Path, tmp_path: Path) -> None:
    other = b"the file as the bucket serves it"
    (root / PICTURE).write_bytes(other)
    note = "the bucket serves another compression"
    file = {
        "path": PICTURE,
        "bytes": None,
        "sha256": None,
        "digest_source": "the list",
        "accepted": [{"sha256": hashlib.sha256(other).hexdigest(), "note": note}],
    }
    dataset = source(physionet(), files=[file])
    found = judged(tmp_path, root, dataset)
    assert states(found) == {PICTURE: "accepted alternate"}
    assert found.ok
    assert found.notes == (f"1 accepted under another digest: {note}",)
    assert verify_local_copy(run_of(tmp_path, root, dataset), dataset).ok
    (root / PICTURE).write_bytes(b"a third form")
    assert states(judged(tmp_path, root, dataset)) == {PICTURE: "mismatch"}


def test_a_list_that_the_manifest_pins_is_checked_too(root: Path, tmp_path: Path) -> None:
    pin = {"path": "SHA256SUMS.txt", "bytes": None, "sha256": "0" * 64, "digest_source": "the publisher"}
    assert states(judged(tmp_path, root, source(physionet(), files=[pin]))) == {"SHA256SUMS.txt": "mismatch"}
    pin["sha256"] = hashlib.sha256(sums_text(CONTENT).encode()).hexdigest()
    assert judged(tmp_path, root, source(physionet(), files=[pin])).counts == {"ok": NEEDED_COUNT + 1}


def test_of_two_versions_the_preferred_one_is_taken_and_named(tmp_path: Path) -> None:
    for version in ("2.0.0", "2.1.0"):
        fill(tmp_path / "physionet.org/files" / SLUG / version, {**CONTENT, "version.csv": version.encode()})
    fill(tmp_path / "physionet.org/files/another-project/2.0.0")
    for versions in (("2.0.0", "2.1.0"), ("2.1.0", "2.0.0"), ("2.1.0",)):
        found = judged(tmp_path, tmp_path / "physionet.org", source(physionet(versions)))
        assert found.version == versions[0]
        assert found.ok
    named = judged(tmp_path, tmp_path / "physionet.org/files" / SLUG / "2.1.0", source(physionet(("2.0.0", "2.1.0"))))
    assert named.version == "2.1.0"


def test_a_version_that_no_name_tells(root: Path, tmp_path: Path) -> None:
    found = judged(tmp_path, root, source(physionet(("2.0.0", "2.1.0"))))
    assert found.version == "unstated"
    assert found.ok
    assert "no name tells the version" in found.notes[0]


def test_a_wrong_version_or_project_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "old" / f"{SLUG}-0.9.0.physionet.org")
    with pytest.raises(BlockedError, match=r"has version 0.9.0 only. Supported: toy-chest 1.0.0"):
        judged(tmp_path, tmp_path / "old")
    fill(tmp_path / "files/another-project/1.0.0")
    with pytest.raises(BlockedError, match="holds another project"):
        judged(tmp_path, tmp_path / "files")
    fill(tmp_path / "bare", {"other.txt": b"x"})
    with pytest.raises(BlockedError, match=r"lists nothing that the tasks need. Point local_copies at a copy of toy"):
        judged(tmp_path, tmp_path / "bare")


def test_projects_in_one_folder_are_told_apart_by_what_they_list(tmp_path: Path) -> None:
    fill(tmp_path / "all/toy-chest-reports-and-films-1.0.0")
    fill(tmp_path / "all/toy-chest-labels-1.0.0", {"labels.csv": b"x"})
    assert judged(tmp_path, tmp_path / "all").root.name == "toy-chest-reports-and-films-1.0.0"
    fill(tmp_path / "all/second-1.0.0")
    assert judged(tmp_path, tmp_path / "all").root.name == "toy-chest-reports-and-films-1.0.0"
    fill(tmp_path / "all/toy-chest-twin-1.0.0")
    with pytest.raises(BlockedError, match="holds 2 projects that may be toy-chest"):
        judged(tmp_path, tmp_path / "all")


def test_a_second_host_of_the_source_serves_as_well(root: Path, tmp_path: Path) -> None:
    first = physionet().model_copy(update={"slug": "toy-original", "needed": ("*.dcm",)})
    assert judged(tmp_path, root, source(first, mirrors=[physionet()])).slug == SLUG


def test_what_is_no_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BlockedError, match="is not there, or you may not enter it"):
        judged(tmp_path, tmp_path / "p19999999")
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(BlockedError, match=r"is a file, not a folder.*unpack a ZIP first"):
        judged(tmp_path, tmp_path / "a.zip")
    (tmp_path / "deep/1/2/3/4/5/6").mkdir(parents=True)
    fill(tmp_path / "deep/1/2/3/4/5/6")
    with pytest.raises(BlockedError, match=r"has no SHA256SUMS\.txt within 5 folders"):
        judged(tmp_path, tmp_path / "deep")
    run = run_with(tmp_path / "run", DATASET, None)
    assert verify_local_copy(run, DATASET).reason == "local copy of toy: is not named"


def test_search_ends_after_so_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medheb.fetch.physionet.MAX_ENTRIES", 20)
    for number in range(30):
        (tmp_path / "wide" / f"{number:02}").mkdir(parents=True)
    fill(tmp_path / "wide/zz")
    with pytest.raises(BlockedError, match="20 entries"):
        judged(tmp_path, tmp_path / "wide")


def test_a_link_to_the_copy_may_be_named_but_links_below_are_not_searched(root: Path, tmp_path: Path) -> None:
    (tmp_path / f"{SLUG}-{VERSION}").symlink_to(root)
    assert judged(tmp_path, tmp_path / f"{SLUG}-{VERSION}").ok
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / SLUG).symlink_to(root)
    with pytest.raises(BlockedError, match=r"has no SHA256SUMS\.txt"):
        judged(tmp_path, tmp_path / "shelf")


def test_task_files_add_what_they_name(root: Path, tmp_path: Path) -> None:
    dataset = source(physionet(needed=("*.csv",)))
    task = Task(
        task="toy_i2i",
        index="2D_Task/toy/test.json",
        form="2d",
        family="image-image",
        split="id",
        pool="local",
        sources=("toy",),
        image_root="2D_Images/toy",
        builder="toy",
        qry_inst="Find it",
        qry_text="",
    )
    run = run_with(tmp_path / "run", dataset, root, [task])
    assert [verdict.path for verdict in verify_local(run, dataset).files] == [BLANKS]
    index = run.layout.task_index(task.index)
    index.parent.mkdir(parents=True)
    rows = [{"qry_img_path": PICTURE.removeprefix("files/"), "tgt_img_path": [[REPORT], "crops/1.png"]}]
    index.write_text(json.dumps(rows))
    assert {verdict.path for verdict in verify_local(run, dataset).files} == {BLANKS, PICTURE, REPORT}
    for text, fault in (
        ("[", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 600 + "]" * 600, "nested too deeply"),
        ("{}", "is not a list of records"),
    ):
        index.write_text(text)
        with pytest.raises(MedhebError, match=fault):
            verify_local(run, dataset)


def test_a_pattern_that_matches_nothing_is_told(root: Path, tmp_path: Path) -> None:
    found = judged(tmp_path, root, source(physionet(needed=("*.csv", "gold/*.json"))))
    assert found.notes == ("pattern 'gold/*.json' of the manifest matches no listed file",)


def test_right_files_are_read_once(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_cache, "RACY_NS", 0)
    (root / BLANKS).write_bytes(b"wrong")
    opened: list[str] = []
    honest = os.open

    def note(path: Any, *rest: Any, **more: Any) -> int:
        if str(path).startswith(str(root)):
            opened.append(Path(path).relative_to(root).as_posix())
        return honest(path, *rest, **more)

    monkeypatch.setattr(os, "open", note)
    first = judged(tmp_path, root)
    assert len(opened) == NEEDED_COUNT
    opened.clear()
    assert judged(tmp_path, root) == first
    assert opened == [BLANKS]  # a wrong file is read again
    opened.clear()
    assert judged(tmp_path, root, reread=True) == first
    assert len(opened) == NEEDED_COUNT
    # The same size and time of change again: only the inode's own time tells.
    status = (root / PICTURE).stat()
    (root / PICTURE).write_bytes(CONTENT[PICTURE][::-1])
    os.utime(root / PICTURE, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert states(judged(tmp_path, root)) == {BLANKS: "mismatch", PICTURE: "mismatch"}


def test_verdicts_do_not_depend_on_workers(tmp_path: Path) -> None:
    content = {f"files/p{i % 9 + 10}/{i:03}.jpg": bytes([i % 256]) * i for i in range(1, 400)}
    root = fill(tmp_path / "copy", content)
    for name in list(content)[::7]:
        (root / name).write_bytes(b"no")
    dataset = source(physionet(needed=("*.jpg",)))
    found = [judged(tmp_path, root, dataset, workers=workers, reread=True).files for workers in (1, 2, 7)]
    assert found[0] == found[1] == found[2]
    assert [verdict.path for verdict in found[0]] == sorted(content)


def test_the_list_of_names_goes_only_where_the_user_may_keep_it(root: Path, tmp_path: Path) -> None:
    (root / PICTURE).unlink()
    found = judged(tmp_path, root)
    private = tmp_path / "private"
    private.mkdir()
    write_list(found, private / "list.tsv")
    lines = (private / "list.tsv").read_text().splitlines()
    assert f"missing\t{PICTURE}" in lines
    assert f"ok\t{BLANKS}" in lines
    assert len(lines) == NEEDED_COUNT
    assert (private / "list.tsv").stat().st_mode & 0o077 == 0
    (tmp_path / "run/results").mkdir()
    (private / "repository/.git").mkdir(parents=True)
    (private / "link").symlink_to(tmp_path / "run/results")
    for place in ("run/results", "run/MedHEB/2D_Task", "run/sources/toy", "private/repository", "private/link"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        with pytest.raises(MedhebError, match="lies inside the folders of the run or a repository"):
            write_list(found, tmp_path / place / "list.tsv")
        assert not (tmp_path / place / "list.tsv").exists()
    with pytest.raises(MedhebError, match="lies inside the folders of the run or a repository"):
        write_list(found, Path("list.tsv"))
    with pytest.raises(MedhebError, match="lies in a folder that does not exist"):
        write_list(found, tmp_path / "nowhere/list.tsv")


OPEN = HttpsHost(kind="https", base="https://example.org/")


def listed(path: str, content: bytes, **facts: Any) -> dict[str, Any]:
    return {"path": path, "bytes": len(content), "sha256": None, "digest_source": "the tests", **facts}


def test_other_sources_are_judged_by_their_manifest(tmp_path: Path) -> None:
    a, b, c = b"first", b"second", b"third"
    files = [
        listed("in/a.zip", a, sha256=hashlib.sha256(a).hexdigest()),
        listed("b.zip", b, md5=hashlib.md5(b).hexdigest()),
        listed("c.zip", c),
    ]
    dataset = source(OPEN, files=files)
    root = tmp_path / "mine/downloads"
    for name, content in (("in/a.zip", a), ("b.zip", b), ("c.zip", c)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    found = judged(tmp_path, tmp_path / "mine", dataset, full=True)
    assert (found.root, found.layout, found.slug, found.list_digest, found.extra) == (root, "folder", "", None, 0)
    assert found.counts == {"ok": 2, "not verifiable": 1}
    assert verify_local_copy(run_of(tmp_path, root, dataset), dataset).ok
    (root / "b.zip").write_bytes(b"sEcond")
    (root / "c.zip").write_bytes(b"thi")
    (root / "in/a.zip").unlink()
    found = judged(tmp_path, tmp_path / "mine", dataset)
    assert states(found) == {"in/a.zip": "missing", "b.zip": "mismatch", "c.zip": "partial"}


def test_an_accepted_alternate_beside_an_md5(tmp_path: Path) -> None:
    alternate = {"sha256": hashlib.sha256(b"other").hexdigest(), "note": "erratum of the publisher"}
    file = listed("b.zip", b"second", md5=hashlib.md5(b"second").hexdigest(), accepted=[alternate])
    (tmp_path / "copy").mkdir()
    for content, state in ((b"second", "ok"), (b"other", "accepted alternate"), (b"third", "mismatch")):
        (tmp_path / "copy/b.zip").write_bytes(content)
        assert list(judged(tmp_path, tmp_path / "copy", source(OPEN, files=[file])).counts) == [state]


def test_a_source_of_which_nobody_lists_files_is_called_not_verifiable(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    found = judged(tmp_path, tmp_path / "copy", source(OPEN))
    assert found.notes == ("not verifiable: the manifest lists no files of this source",)
    assert found.ok


def test_build_reads_where_the_right_copy_lies(root: Path, tmp_path: Path) -> None:
    run = run_of(tmp_path, root)
    with pytest.raises(MedhebError, match=r"local.json: is missing. Verify the copy again"):
        files_of(run, DATASET)
    assert verify_local_copy(run, DATASET).ok
    assert files_of(run, DATASET) == root
    assert files_of(run_with(tmp_path / "run", DATASET, None), DATASET) == run.layout.source_files("toy")


def test_physionet_is_never_crawled(tmp_path: Path) -> None:
    client = client_for("physionet")
    assert client is CLIENT
    with pytest.raises(BlockedError, match=r"needs your own copy.*toy-chest 1.0.0.*'local_copies: \{toy: <folder>\}'"):
        client.listing(DATASET, physionet())


def test_a_faulty_marker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"is missing. Verify the copy again"):
        read_local_copy(tmp_path / "local.json")
    (tmp_path / "local.json").write_text("{")
    with pytest.raises(MedhebError, match="is not JSON"):
        read_local_copy(tmp_path / "local.json")
