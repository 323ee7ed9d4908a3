"""A source that needs two PhysioNet projects: both are found below one folder, and the verdict is on both."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from make_physionet import BLANKS, CANARIES, CONTENT, PICTURE, REPORT, fill, run_with, source

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import digest_cache
from medheb.fetch.local_copy import verify_local, verify_local_copy
from medheb.fetch.located import also_of, files_of, local_copy_file, read_local_copy
from medheb.fetch.verification import Verification, write_list
from medheb.manifest.base import validate
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HttpsHost, PhysioNetHost
from medheb.manifest.load import Run, load_dataset

pytestmark = pytest.mark.host("physionet")

# As with the real pair, one slug is the beginning of the other, and the host is the longer one.
FILMS, TEXTS = "toy-chest-jpg", "toy-chest"
TEXT_CONTENT = {path: CONTENT[path] for path in ("LICENSE.txt", REPORT)}
FILM_CONTENT = {path: CONTENT[path] for path in CONTENT if path != REPORT}
TEXT_HOST = PhysioNetHost(kind="physionet", slug=TEXTS, versions=("2.0.0", "2.1.0"), needed=("files/*.txt",))
FILM_HOST = PhysioNetHost(
    kind="physionet", slug=FILMS, versions=("1.0.0", "2.0.0"), needed=("files/*.jpg", "*.csv", "*.csv.gz")
)
DATASET = source(FILM_HOST, also=[TEXT_HOST])


def wget(folder: Path, slug: str, version: str, content: Mapping[str, bytes]) -> Path:
    root = fill(folder / "physionet.org/files" / slug / version, content)
    (root / "index.html").write_text("<html>")
    return root


def unzipped(folder: Path, slug: str, version: str, content: Mapping[str, bytes]) -> Path:
    return fill(folder / f"{slug}-database-{version}", content)


def bucket(folder: Path, slug: str, version: str, content: Mapping[str, bytes]) -> Path:
    return fill(folder / f"{slug}-{version}.physionet.org", content)


def synced(folder: Path, slug: str, version: str, content: Mapping[str, bytes]) -> Path:
    return fill(folder / slug / version, content)


def bare(folder: Path, slug: str, version: str, content: Mapping[str, bytes]) -> Path:
    return fill(folder / f"mine {len(content)}", content)


Maker = Callable[[Path, str, str, Mapping[str, bytes]], Path]
MAKERS: tuple[Maker, ...] = (wget, unzipped, bucket, synced, bare)


def both(folder: Path, films: Maker = wget, texts: Maker = wget) -> tuple[Path, Path]:
    return films(folder, FILMS, "2.0.0", FILM_CONTENT), texts(folder, TEXTS, "2.1.0", TEXT_CONTENT)


def run_of(tmp_path: Path, copy: Path, dataset: Dataset = DATASET) -> Run:
    return run_with(tmp_path / "run", dataset, copy)


def judged(tmp_path: Path, copy: Path, *, full: bool = False, reread: bool = False) -> Verification:
    return verify_local(run_of(tmp_path, copy), DATASET, full=full, reread=reread)


@pytest.mark.parametrize("films", MAKERS)
@pytest.mark.parametrize("texts", MAKERS)
def test_both_are_found_in_any_pair_of_layouts(films: Maker, texts: Maker, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    film_root, text_root = both(copy, films, texts)
    found = judged(tmp_path, copy)
    assert [(part.slug, part.root) for part in found.parts] == [(FILMS, film_root), (TEXTS, text_root)]
    expected = ["unstated" if films is bare else "2.0.0", "unstated" if texts is bare else "2.1.0"]
    assert [part.version for part in found.parts] == expected
    assert [part.counts for part in found.parts] == [{"ok": len(FILM_CONTENT) - 1}, {"ok": 1}]
    assert found.ok
    assert [part.counts["ok"] for part in judged(tmp_path, copy, full=True).parts] == [
        len(FILM_CONTENT), len(TEXT_CONTENT),
    ]  # fmt: skip


def test_build_learns_both_roots(tmp_path: Path) -> None:
    films, texts = both(tmp_path / "copy")
    run = run_of(tmp_path, tmp_path / "copy")
    with pytest.raises(MedhebError, match=r"local.json: is missing"):
        also_of(run, DATASET)
    assert verify_local_copy(run, DATASET).ok
    assert files_of(run, DATASET) == films
    assert also_of(run, DATASET) == {TEXTS: texts}
    known = read_local_copy(local_copy_file(run.layout, "toy"))
    assert (known.slug, known.version, known.listed, known.root) == (FILMS, "2.0.0", len(FILM_CONTENT), str(films))
    (other,) = known.also
    assert (other.slug, other.version, other.layout, other.listed) == (TEXTS, "2.1.0", "wget tree", len(TEXT_CONTENT))
    assert (other.checked, other.counts, other.bytes) == (1, {"ok": 1}, len(CONTENT[REPORT]))
    alone = source(FILM_HOST)
    assert also_of(run, alone) == {}
    assert verify_local_copy(run_of(tmp_path, films, alone), alone).ok
    with pytest.raises(MedhebError, match=r"local.json: is not about toy-chest. Verify the copy again"):
        also_of(run, DATASET)


def test_a_fault_in_either_project_is_told_with_slug_and_version(tmp_path: Path) -> None:
    films, texts = both(tmp_path / "copy")
    run = run_of(tmp_path, tmp_path / "copy")
    (texts / REPORT).unlink()
    status = verify_local_copy(run, DATASET)
    assert (status.state, status.reason) == (
        "blocked",
        "local copy of toy: toy-chest 2.1.0: 1 of 1 needed files is missing",
    )
    assert not local_copy_file(run.layout, "toy").exists()
    content = bytearray((films / PICTURE).read_bytes())
    content[99] ^= 1
    (films / PICTURE).write_bytes(content)
    status = verify_local_copy(run, DATASET)
    assert status.state == "failed"
    assert status.reason.endswith(
        f"toy-chest-jpg 2.0.0: 1 of {len(FILM_CONTENT) - 1} needed files differs; "
        "toy-chest 2.1.0: 1 of 1 needed files is missing"
    )
    (texts / REPORT).write_bytes(CONTENT[REPORT])
    assert "toy-chest 2.1.0" not in verify_local_copy(run, DATASET).reason


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    films, texts = both(tmp_path / "copy")
    remedy = r"Point local_copies at a folder that holds one copy each of toy-chest-jpg \(1.0.0, 2.0.0\) and toy-chest"
    for copy, slug in ((films, "toy-chest"), (texts, "toy-chest-jpg")):
        with pytest.raises(BlockedError, match=rf"project {slug}: is not there. {remedy} \(2.0.0, 2.1.0\)"):
            judged(tmp_path, copy)
    bare(tmp_path / "single", FILMS, "", FILM_CONTENT)
    with pytest.raises(BlockedError, match=r"project toy-chest: is not there"):
        judged(tmp_path, tmp_path / "single")
    unzipped(tmp_path / "films", FILMS, "2.0.0", FILM_CONTENT)
    unzipped(tmp_path / "films", "other", "2.0.0", {"other.txt": b"x"})
    with pytest.raises(BlockedError, match=r"project toy-chest: holds a project whose .* lists nothing"):
        judged(tmp_path, tmp_path / "films")
    wget(tmp_path / "old", FILMS, "2.0.0", FILM_CONTENT)
    wget(tmp_path / "old", TEXTS, "0.9.0", TEXT_CONTENT)
    with pytest.raises(BlockedError, match=rf"project toy-chest: has version 0.9.0 only. {remedy}"):
        judged(tmp_path, tmp_path / "old")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BlockedError, match=r"has no SHA256SUMS.txt .* a folder that holds toy-chest-jpg and toy-chest"):
        judged(tmp_path, tmp_path / "empty")


def test_one_root_never_stands_for_both(tmp_path: Path) -> None:
    fill(tmp_path / "merged", CONTENT)
    with pytest.raises(BlockedError, match=r"project toy-chest: is not there"):
        judged(tmp_path, tmp_path / "merged")


def test_right_files_of_both_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_cache, "RACY_NS", 0)
    both(tmp_path / "copy")
    opened: list[str] = []
    honest = os.open

    def note(path: object, *rest: int, **more: int) -> int:
        if str(path).startswith(str(tmp_path / "copy")):
            opened.append(str(path))
        return honest(path, *rest, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", note)
    for again, reads in ((False, len(FILM_CONTENT)), (False, 0), (True, len(FILM_CONTENT)), (False, 0)):
        opened.clear()
        assert judged(tmp_path, tmp_path / "copy", reread=again).ok
        assert len(opened) == reads


def test_the_summary_has_a_line_for_each_and_notes_name_the_project(tmp_path: Path) -> None:
    both(tmp_path / "copy", texts=bare)
    found = judged(tmp_path, tmp_path / "copy")
    first, second = found.summary().splitlines()
    assert first.startswith(f"toy toy-chest-jpg 2.0.0 (wget tree): {len(FILM_CONTENT)} listed, 4 checked: 4 ok, ")
    assert second.startswith("toy toy-chest unstated (bare root): 2 listed, 1 checked: 1 ok, ")
    assert found.notes == ("toy-chest: no name tells the version; the files are judged by the copy's own list",)


def test_the_list_tells_whose_file_it_is(tmp_path: Path) -> None:
    _, texts = both(tmp_path / "copy")
    (texts / REPORT).unlink()
    (tmp_path / "private").mkdir()
    write_list(judged(tmp_path, tmp_path / "copy"), tmp_path / "private/list.tsv")
    lines = (tmp_path / "private/list.tsv").read_text().splitlines()
    assert f"missing\t{TEXTS}/{REPORT}" in lines
    assert f"ok\t{FILMS}/{BLANKS}" in lines
    assert len(lines) == len(FILM_CONTENT)


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


@pytest.mark.parametrize("damaged", [False, True])
def test_no_id_of_either_gets_out(
    damaged: bool, tmp_path: Path, logged: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    films, texts = both(tmp_path / "copy")
    if damaged:
        (films / PICTURE).write_bytes(b"canary")
        (texts / REPORT).unlink()
    run = run_of(tmp_path, tmp_path / "copy")
    status = verify_local_copy(run, DATASET)
    assert status.ok is not damaged
    found = verify_local(run, DATASET, full=True)
    lines = logged.getvalue()
    assert "toy-chest-jpg 2.0.0" in lines
    assert "toy-chest 2.1.0" in lines
    told = [lines, *capfd.readouterr(), status.model_dump_json(), repr(found), found.summary(), str(found.trouble())]
    told += [os.fsdecode(path) for path in (tmp_path / "run").rglob("*")]
    told += [os.fsdecode(path.read_bytes()) for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [canary for canary in CANARIES for text in told if canary in text]


def test_what_a_manifest_may_say() -> None:
    with pytest.raises(MedhebError, match="host of kind physionet where there is also"):
        validate_with(HttpsHost(kind="https", base="https://example.org/"), TEXT_HOST)
    with pytest.raises(MedhebError, match="another slug for each project"):
        validate_with(FILM_HOST, FILM_HOST)


def validate_with(host: object, *also: PhysioNetHost) -> Dataset:
    fields = DATASET.model_dump() | {"host": host, "also": also}
    return validate(Dataset, fields, "a manifest")


def test_mimic_cxr_takes_pictures_and_reports_from_two_projects() -> None:
    dataset = load_dataset(Path("manifests/datasets/mimic_cxr.yaml"))
    assert isinstance(dataset.host, PhysioNetHost)
    assert (dataset.host.slug, [host.slug for host in dataset.also]) == ("mimic-cxr-jpg", ["mimic-cxr"])
