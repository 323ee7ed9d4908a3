"""MMDental: planes, layouts of the archive, visits, damaged cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from make_stacks import mmdental as lay
from make_stacks import put, scan
from making import built, faults, lock, root
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.core.errors import MedhebError


def records(out: Path, name: str = "records.jsonl") -> list[dict[str, Any]]:
    text = (out / "3D_Images" / "MMDental" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def cases(inventory: Inventory) -> set[str]:
    return {str(file.facts["case"]) for file in inventory.of_kind("slice")}


def test_sixty_planes_of_each_volume(tmp_path: Path) -> None:
    lay(tmp_path)
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    case = [file for file in inventory.of_kind("slice") if file.facts["case"] == "7"]
    assert [file.path for file in case][::20] == [
        f"cbct_png/7/{view}_slice_000.png" for view in ("axial", "coronal", "sagittal")
    ]
    axial = [file.facts["slice"] for file in case if file.facts["view"] == "axial"]
    assert (axial[0], axial[-1], len(axial)) == (2, 27, 20)
    assert case[0].facts["axis_codes"] == "LAS"
    assert str(case[0].facts["window"]).startswith("percentiles 0.5-99.5, widened to -9")
    assert (tmp_path / "out/3D_Images/MMDental/selection/cases.txt").read_text().split() == ["101", "7"]


def test_release_stands_upside_down_and_corrected_does_not(tmp_path: Path) -> None:
    lay(tmp_path)
    built("mmdental", tmp_path, tmp_path / "r", "release")
    built("mmdental", tmp_path, tmp_path / "c")
    for view in ("axial", "coronal", "sagittal"):
        name = f"3D_Images/MMDental/cbct_png/7/{view}_slice_011.png"
        published, shown = (np.asarray(Image.open(tmp_path / out / name)) for out in ("r", "c"))
        assert np.array_equal(published[::-1, ::-1], shown)


def test_directions_of_corrected_pictures(tmp_path: Path) -> None:
    values = np.full((40, 40, 40), -1000, np.int16)
    values[30:, 30:, 30:] = 1500  # to the left, front and top of the head, as stored in LAS order
    put(tmp_path / "MMDental" / "5.nii.gz", values)
    built("mmdental", tmp_path, tmp_path / "out")
    for view, slot in (("axial", 18), ("coronal", 18), ("sagittal", 1)):
        picture = np.asarray(Image.open(tmp_path / f"out/3D_Images/MMDental/cbct_png/5/{view}_slice_{slot:03d}.png"))
        rows, columns = np.nonzero(picture > picture.min())
        assert rows.max() == 9, f"{view}: front or head at the top"
        # The patient's left on the right of the picture; from the side, the front on the left.
        assert (columns.min(), columns.max()) == ((0, 9) if view == "sagittal" else (30, 39))


def test_visits_stay_apart(tmp_path: Path) -> None:
    lay(tmp_path)
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    first, second, other = records(tmp_path / "out", "visits.jsonl")
    assert [row["id"] for row in records(tmp_path / "out")] == ["101/1", "7/1"]
    assert (first["id"], second["id"], other["id"]) == ("101/1", "101/2", "7/1")
    assert (first["query"], first["target"], first["group"]) == ("Caries, 36", "Filling", "101")
    assert (second["visit"], second["visits"], second["target"]) == (2, 2, "")
    assert first["cells"] == {"Sex": "F", "Age": "30", "Chief complaint": "pain, left\nlower"}
    assert all(row["volume"] for row in (first, second, other))
    assert "3 visits of 2 patients; 1 patients have several visits" in inventory.notes
    assert "visits without a diagnosis or without a treatment plan: 1" in inventory.notes


def test_flat_layout_and_any_worker_give_the_same(tmp_path: Path) -> None:
    lay(tmp_path / "a")
    lay(tmp_path / "b" / "unpacked", nested=False)
    first = built("mmdental", tmp_path / "a", tmp_path / "out_a")
    second = built("mmdental", tmp_path / "b", tmp_path / "out_b", workers=2)
    assert root(first) == root(second) == "7014596cf0717df1"
    assert root(built("mmdental", tmp_path / "a" / "MMDental", tmp_path / "out_r", "release")) == "0dfbcdf0fc83a904"


def test_the_folder_itself_without_records(tmp_path: Path) -> None:
    folder = lay(tmp_path, nested=False)
    (folder / "medical_records.csv").unlink()
    inventory = built("mmdental", folder, tmp_path / "out")
    assert cases(inventory) == {"101", "7"}
    assert any("medical_records.csv: is missing" in text for text in faults(inventory))


def test_bad_cases_are_named_and_the_others_stay(tmp_path: Path) -> None:
    folder = lay(tmp_path)
    put(folder / "7.nii.gz", scan(9))
    put(folder / "20" / "a.nii.gz", scan(9))
    put(folder / "20" / "b.nii", scan(9))
    (folder / "21").mkdir()
    put(folder / "22" / "22.nii.gz", scan(9, (8, 8, 8, 2)))
    cut = put(folder / "23" / "23.nii.gz", scan(9))
    cut.write_bytes(cut.read_bytes()[:-4000])
    (folder / "24").mkdir()
    (folder / "24" / "24.nii").write_bytes(b"no volume" * 100)
    colour = np.zeros((4, 4, 4), np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")]))
    put(folder / "25" / "25.nii.gz", colour)
    header = nibabel.Nifti1Header()
    header["sform_code"], header["srow_x"] = 1, np.nan
    (folder / "26").mkdir()
    nibabel.save(nibabel.Nifti1Image(scan(9), None, header), folder / "26" / "26.nii.gz")
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    assert cases(inventory) == {"101"}
    found = "\n".join(faults(inventory))
    assert "MMDental: holds both 7 and 7.nii.gz" in found
    assert "20: holds several volumes, none named after it: a.nii.gz and b.nii" in found
    assert "21: holds no NIfTI volume" in found
    assert "22.nii.gz: is 4-dimensional (8, 8, 8, 2)" in found
    assert "23.nii.gz: ends or breaks at slice" in found
    assert "24.nii: is not a readable NIfTI volume" in found
    assert "25.nii.gz: holds" in found
    assert "26.nii.gz: has a damaged orientation matrix" in found
    assert "cases, files or rows that could not be used: 8; the inventory names each" in inventory.notes


def test_a_volume_that_does_not_say_how_it_lies(tmp_path: Path) -> None:
    lay(tmp_path)
    image = nibabel.Nifti1Image(scan(3), None)
    image.header.set_zooms((1, 1, 1))
    (tmp_path / "MMDental" / "30").mkdir()
    nibabel.save(image, tmp_path / "MMDental" / "30" / "30.nii.gz")
    inventory = built("mmdental", tmp_path, tmp_path / "c")
    assert "30" not in cases(inventory)
    assert any("30.nii.gz: does not say how it is oriented" in text for text in faults(inventory))
    release = built("mmdental", tmp_path, tmp_path / "r", "release")
    assert "30" in cases(release)
    assert "1 of 3 volumes have a header without usable orientation" in release.notes


@pytest.mark.parametrize(
    ("value", "fault"), [(0, "holds no voxel other than 0"), (-1000, "holds one value in all voxels other than 0")]
)
def test_a_volume_of_one_value(tmp_path: Path, value: int, fault: str) -> None:
    lay(tmp_path / "in")
    put(tmp_path / "in" / "MMDental" / "7" / "7.nii.gz", np.full((8, 8, 8), value, np.int16))
    inventory = built("mmdental", tmp_path / "in", tmp_path / "c")
    assert cases(inventory) == {"101"}
    assert any(f"7.nii.gz: {fault}. Check the file" in text for text in faults(inventory))
    release = built("mmdental", tmp_path / "in", tmp_path / "r", "release")
    assert cases(release) == {"101", "7"}
    assert [remark.done for remark in release.remarks if remark.oddity == fault] == [
        "Its planes are black, as published"
    ]


def test_short_axes_repeat_planes_and_say_so(tmp_path: Path) -> None:
    put(tmp_path / "MMDental" / "5" / "5.nii.gz", scan(4, (24, 22, 6)))
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    axial = [file.facts["slice"] for file in inventory.of_kind("slice") if file.facts["view"] == "axial"]
    assert len(axial) == 20
    assert len(set(axial)) == 6
    assert "1 of 1 volumes have an axis of fewer than 20 planes, so that some show the same plane" in inventory.notes


def test_a_table_without_the_needed_columns(tmp_path: Path) -> None:
    folder = lay(tmp_path)
    (folder / "medical_records.csv").write_text("Filename,Diagnosis,Plan\n7,Cyst,Surgery\n")
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    assert any("has no column Treatment plan" in text for text in faults(inventory))
    columns = {"case": "Filename", "diagnosis": "Diagnosis", "treatment_plan": "Plan"}
    built("mmdental", tmp_path, tmp_path / "named", options={"columns": columns})
    assert [row["target"] for row in records(tmp_path / "named")] == ["Surgery"]


def test_not_the_source(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(MedhebError, match=r"holds no MMDental/medical_records\.csv or"):
        built("mmdental", tmp_path / "in", tmp_path / "out")


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(lay(tmp_path) / "8" / "scan.nii", scan(8))
    lock(monkeypatch, "8")
    inventory = built("mmdental", tmp_path, tmp_path / "out")
    assert any("8: cannot be listed (Permission denied)" in text for text in faults(inventory))
    assert inventory.of_kind("slice")
