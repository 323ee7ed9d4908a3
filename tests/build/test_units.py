"""Units of work: shards, workers, crashes, refusals, and the command without a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import make_phantoms as make
import numpy as np
import pytest
import toy_recipe
from make_phantoms import RunMaker
from PIL import Image
from typer.testing import CliRunner

from medheb.build import registry
from medheb.build.inventory import Inventory, read_header, read_inventory
from medheb.build.kept_pictures import keep_file
from medheb.build.output import Output
from medheb.build.run import build_from, build_images, build_shard
from medheb.build.source import Source
from medheb.build.telling import general
from medheb.cli import app
from medheb.core.errors import MedhebError
from medheb.core.shards import Shard
from medheb.manifest.dataset import Dataset, Place
from medheb.manifest.load import Run

CASES = {f"c{number}": str(10 * number) for number in range(1, 8)}


@pytest.fixture
def toy(run_of: RunMaker, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setitem(registry.RECIPES, "toy", registry.Entry("toy_recipe"))
    monkeypatch.setattr("medheb.build.run.code_digest", lambda module: module)
    run = run_of(("toy", "toy", {}))
    lay(run.layout.source_files("toy"), CASES)
    return run


def lay(files: Path, cases: dict[str, str]) -> None:
    (files / "cases").mkdir(parents=True, exist_ok=True)
    for name, text in cases.items():
        (files / "cases" / f"{name}.txt").write_text(text)


def calls(run: Run) -> list[str]:
    path = run.layout.source_files("toy") / "calls"
    return sorted(path.read_text().split()) if path.exists() else []


def inventory_of(run: Run) -> Inventory:
    return read_inventory(run.layout.inventory(run.datasets["toy"].images, "toy"))


def test_one_worker_or_three_and_any_order_of_files_give_the_same(toy: Run, tmp_path: Path) -> None:
    assert build_images(toy, "toy").ok
    first = inventory_of(toy)
    other = tmp_path / "elsewhere"
    lay(other, dict(reversed(CASES.items())))
    second = build_from(toy.datasets["toy"], other, tmp_path / "out", "corrected", "cone", workers=3)
    assert second == first
    assert [file.path for file in first.files][:3] == ["all.txt", "c1/first.png", "c1/level.png"]


def test_protocol_reaches_the_recipe_and_the_inventory(toy: Run, tmp_path: Path) -> None:
    made = build_from(toy.datasets["toy"], toy.layout.source_files("toy"), tmp_path / "out", "release", "release")
    assert made.protocol == "release"
    assert {file.facts["level"] for file in made.files if "level" in file.facts} == {9, 19, 29, 39, 49, 59, 69}


def test_shards_do_each_unit_once_and_the_gather_does_none(toy: Run, tmp_path: Path) -> None:
    for number in range(3):
        receipt = tmp_path / f"{number}.json"
        assert build_shard(toy, "toy", Shard(number, 3), receipt).ok
        assert json.loads(receipt.read_text())["units"] == len(range(number, 7, 3))
    assert calls(toy) == sorted(CASES)
    assert build_images(toy, "toy").ok
    assert calls(toy) == sorted(CASES), "the gather step built nothing again"
    assert len(inventory_of(toy).files) == 15


def test_a_lost_file_of_a_shard_is_made_again(toy: Run, tmp_path: Path) -> None:
    build_shard(toy, "toy", Shard(0, 1), tmp_path / "receipt.json")
    (staging,) = (toy.layout.benchmark / "3D_Images").glob(".toy.part.*")
    (staging / "c3" / "level.png").write_bytes(b"")
    assert build_images(toy, "toy").ok
    assert calls(toy) == sorted([*CASES, "c3"])


def test_a_bad_case_is_named_and_loses_nothing(toy: Run) -> None:
    lay(toy.layout.source_files("toy"), {"c2": "dark"})
    assert build_images(toy, "toy").ok
    inventory = inventory_of(toy)
    assert not [file.path for file in inventory.files if file.path.startswith("c2")], "nothing half is left"
    (refusal,) = inventory.refusals
    assert refusal.where.endswith("cases/c2.txt")
    assert refusal.fault == "is not a number"
    assert "cases, files or rows that could not be used: 1; the inventory names each" in inventory.notes


def test_an_unreadable_file_is_a_refusal(toy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = toy.layout.source_files("toy") / "cases" / "c9.txt"
    broken.symlink_to("nowhere")
    assert build_images(toy, "toy").ok
    (refusal,) = inventory_of(toy).refusals
    assert refusal.where.endswith("c9.txt")
    assert "cannot be read (No such file or directory)" in refusal.fault


def test_only_bad_cases_fail_with_the_first_reason(toy: Run) -> None:
    lay(toy.layout.source_files("toy"), dict.fromkeys(CASES, "dark"))
    status = build_images(toy, "toy")
    assert status.state == "failed"
    assert "c1.txt: is not a number (and 6 more that are no use)" in status.reason
    lay(toy.layout.source_files("toy"), CASES)
    assert build_images(toy, "toy").ok, "a mended source does not meet its old refusals"
    assert not inventory_of(toy).refusals


def test_a_closed_source_says_what_is_wrong_but_not_with_whom(toy: Run) -> None:
    lay(toy.layout.source_files("toy"), dict.fromkeys(CASES, "dark"))
    closed = toy.datasets["toy"].model_copy(update={"show_content": False, "redistribution": False})
    with pytest.raises(MedhebError, match="7 could not be used") as caught:
        build_from(closed, toy.layout.source_files("toy"), toy.layout.benchmark, "corrected", "cone")
    assert caught.value.fault.endswith("(its terms forbid to name them here): is not a number (7)")
    assert "c1" not in str(caught.value)
    listed = Path(re.search(r"(/\S+\.json) lists all", caught.value.remedy)[1])  # type: ignore[index]
    failed = read_header(listed)
    assert failed.status.state == "failed"
    assert [refusal.where[-6:] for refusal in failed.refusals] == [f"{case}.txt" for case in sorted(CASES)]
    lay(toy.layout.source_files("toy"), CASES)
    build_from(closed, toy.layout.source_files("toy"), toy.layout.benchmark, "corrected", "cone")
    assert read_header(listed).status.ok
    lay(toy.layout.source_files("toy"), dict.fromkeys(CASES, "dark"))
    with pytest.raises(MedhebError, match=r"The earlier build in .* stays"):
        build_from(closed, toy.layout.source_files("toy"), toy.layout.benchmark, "corrected", "cone")
    assert read_header(listed).status.ok


@pytest.mark.parametrize(
    ("fault", "kept"),
    [
        ("has the class 'Nodule'", "has the class"),
        ("names a picture that is not there: p10/s5.jpg", "names a picture that is not there"),
        ("is a DICOM file without pixels", "is a DICOM file without pixels"),
        ("is not UTF-8 text (byte 7)", "is not UTF-8 text"),
        ("repeats Cardiomegaly of line 7", "another fault"),
        ("12 rows", "another fault"),
    ],
)
def test_the_general_part_of_a_fault_holds_no_data(fault: str, kept: str) -> None:
    assert general(fault) == kept


def test_two_files_that_claim_one_case_are_refused(toy: Run) -> None:
    lay(toy.layout.source_files("toy"), {"c1-again": "5"})
    assert "toy: c1: is claimed by two files or rows" in build_images(toy, "toy").reason


def test_duplicates_are_counted(toy: Run) -> None:
    build_images(toy, "toy")
    header = read_header(toy.layout.inventory(toy.datasets["toy"].images, "toy"))
    assert header.duplicates.inside == 6
    assert header.duplicates.across_splits == 0
    lay(toy.layout.source_files("toy"), {"c8": "10"})
    build_images(toy, "toy")
    assert read_header(toy.layout.inventory(toy.datasets["toy"].images, "toy")).duplicates.inside == 8


def test_a_table_that_is_not_the_headers_own_is_refused(toy: Run) -> None:
    build_images(toy, "toy")
    header = toy.layout.inventory(toy.datasets["toy"].images, "toy")
    lay(toy.layout.source_files("toy"), {"c1": "99"})
    old = header.with_suffix(".parquet").read_bytes()
    build_images(toy, "toy")
    header.with_suffix(".parquet").write_bytes(old)
    with pytest.raises(MedhebError, match=r"is not the table that toy\.inventory\.json vouches for"):
        read_inventory(header)
    content = json.loads(header.read_text())
    header.write_text(json.dumps(content | {"schema_version": 1}))
    with pytest.raises(MedhebError, match="is an inventory of version 1; this code reads 2"):
        read_inventory(header)


def with_places(run: Run, *places: Place) -> Dataset:
    return run.datasets["toy"].model_copy(update={"places": places})


def test_places_are_links_into_the_folder(toy: Run, tmp_path: Path) -> None:
    dataset = with_places(
        toy,
        Place(path="3D_Images/Other", folder="c1"),
        Place(path="3D_Images/Both/images", folder="c2", shared=True),
    )
    out = tmp_path / "out"
    theirs = out / "3D_Images" / "Both" / "images" / "theirs.png"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"x")
    stale = theirs.with_name("stale.png")
    stale.symlink_to("../../toy/c2/stale.png")
    build_from(dataset, toy.layout.source_files("toy"), out, "corrected", "cone")
    assert (out / "3D_Images" / "Other" / "level.png").read_bytes() == (
        out / "3D_Images" / "toy" / "c1" / "level.png"
    ).read_bytes()
    assert sorted(path.name for path in theirs.parent.iterdir()) == ["first.png", "level.png", "theirs.png"]
    assert not os.path.isabs(os.readlink(theirs.with_name("level.png")))  # noqa: PTH115, PTH117
    assert stale.exists() is False


def test_a_real_file_where_a_link_must_be_is_not_touched(toy: Run, tmp_path: Path) -> None:
    dataset = with_places(toy, Place(path="3D_Images/Other", folder="c1"))
    mine = tmp_path / "out" / "3D_Images" / "Other" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("x")
    with pytest.raises(MedhebError, match="is a real file or folder where a link must be"):
        build_from(dataset, toy.layout.source_files("toy"), tmp_path / "out", "corrected", "cone")
    assert mine.exists()


def test_the_folder_is_found_below_a_parent_and_never_guessed(toy: Run, tmp_path: Path) -> None:
    source = Source(toy.datasets["toy"], tmp_path / "top")
    lay(tmp_path / "top" / "a" / "b", CASES)
    assert source.folder_with("other", "cases") == tmp_path / "top" / "a" / "b"
    with pytest.raises(MedhebError, match="holds no missing, not even 6 folders down"):
        source.folder_with("missing")
    lay(tmp_path / "top" / "a" / "c", CASES)
    with pytest.raises(MedhebError, match="holds cases more than once: in a/b and a/c"):
        source.folder_with("cases")


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
import make_phantoms as make, toy_recipe
from medheb.build import registry, run as step
registry.RECIPES["toy"] = registry.Entry("toy_recipe")
step.code_digest = lambda module: module
build = toy_recipe.RECIPE.build
def dies(source, unit, out):
    build(source, unit, out)
    if unit.name == "c4":
        os.kill(os.getpid(), signal.SIGKILL)
from medheb.build.recipe import Recipe
toy_recipe.RECIPE = Recipe(dies, toy_recipe.units, toy_recipe.finish)
run = make.run_of(pathlib.Path(sys.argv[2]), [("toy", "toy", {})], "3D_Images/{}")
import test_units
test_units.lay(run.layout.source_files("toy"), test_units.CASES)
step.build_images(run, "toy")
"""


def test_a_killed_build_goes_on_where_it_stopped(toy: Run, tmp_path: Path) -> None:
    other = tmp_path / "killed"
    arguments = [sys.executable, "-c", KILLED, str(Path(toy_recipe.__file__).parent), str(other)]
    assert subprocess.run(arguments, check=False).returncode == -9
    (staging,) = (other / "MedHEB" / "3D_Images").iterdir()
    assert (staging / "c4" / "level.png").exists()
    dataset = make.manifest("toy", "toy", {}, "3D_Images/toy")
    made = build_from(dataset, other / "sources" / "toy" / "files", other / "MedHEB", "corrected", "cone")
    assert len(made.files) == 15
    done = (other / "sources" / "toy" / "files" / "calls").read_text().split()
    assert done == ["c1", "c2", "c3", "c4", "c4", "c5", "c6", "c7"], "only the unit that was cut off is made twice"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "x"], "got one of --source and --out"),
        (["--source", "x", "--out", "y", "--shard", "1/2"], "got --shard or --receipt with --source"),
        (["--protocol", "release"], "got --protocol or --projector without --source"),
        (["--shard", "3/2", "--receipt", "r"], "--shard 3/2: is not NUMBER/COUNT"),
        (["--shard", "1/2"], "has no --receipt"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["build", "bloodmnist", *arguments])
    assert message in str(result.exception)


def test_a_folder_without_rights_hides_nothing_else(toy: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path / "top" / "open", CASES)
    (tmp_path / "top" / "locked").mkdir()
    real = os.stat

    def stat(path: object, *arguments: object, **options: object) -> os.stat_result:
        if "locked/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "stat", stat)
    assert Source(toy.datasets["toy"], tmp_path / "top").folder_with("cases") == tmp_path / "top" / "open"


def test_no_picture_is_refused_in_words_that_stay_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"junk")
    with pytest.raises(MedhebError, match=r"x\.png: cannot be decoded \(it is no picture\)"):
        Output(tmp_path / "out", "toy").file("x.png", path)


def test_a_grey_picture_is_known_as_one_in_either_mode_however_it_is_written(tmp_path: Path) -> None:
    grey = np.arange(48, dtype=np.uint8).reshape(6, 8)
    colour = np.stack([grey] * 3, axis=-1)
    original = tmp_path / "original.png"
    Image.fromarray(colour).save(original)
    out = Output(tmp_path / "out", "toy")
    out.picture("grey.png", grey)
    out.picture("array.png", colour)
    out.picture("image.png", Image.fromarray(colour))
    out.file("file.png", original)
    out.content("content.png", original.read_bytes())
    keep_file(out, "kept.png", original)
    out.again("again.png", "array.png")
    out.picture("tinted.png", colour * np.uint8([1, 1, 2]))
    files = dict(out.files)
    assert files["grey.png"].seen == files["grey.png"].content
    assert {file.seen for name, file in files.items() if name != "tinted.png"} == {files["grey.png"].content}
    assert len({file.content for name, file in files.items() if name != "tinted.png"}) == 2
    assert files["tinted.png"].seen == files["tinted.png"].content
