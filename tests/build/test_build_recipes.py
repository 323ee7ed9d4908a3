"""Recipes: what they write and what they know of it."""

from __future__ import annotations

from pathlib import Path

import make_phantoms as make
import numpy as np
import pytest
from make_phantoms import RunMaker
from PIL import Image

from medheb.build.demo.anatomy import structure
from medheb.build.demo.findings import findings_line
from medheb.build.inventory import Inventory, read_inventory
from medheb.build.run import build_images
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run


def built(run: Run, identifier: str) -> Inventory:
    status = build_images(run, identifier)
    assert status.ok, status
    return read_inventory(run.layout.inventory(run.datasets[identifier].images, identifier))


def trouble(run: Run, identifier: str) -> str:
    status = build_images(run, identifier)
    assert (status.state, status.origin) == ("failed", f"build {identifier}")
    inventory = read_inventory(run.layout.inventory(run.datasets[identifier].images, identifier))
    assert inventory.status == status
    assert inventory.files == ()
    return f"{status.reason}. {status.remedy}"


@pytest.mark.parametrize(
    ("name", "label", "group", "side", "system"),
    [
        ("kidney_left", "left kidney", "kidney", "left", "urinary system"),
        ("vertebrae_L1", "L1 vertebra", "vertebrae", None, "skeletal system"),
        ("vertebrae", "vertebrae", "vertebrae", None, "skeletal system"),
        ("rib_right_12", "right 12th rib", "rib", "right", "skeletal system"),
        ("lung_upper_lobe_left", "upper lobe of the left lung", "lung", "left", "respiratory system"),
        ("iliac_vena_right", "right iliac vein", "iliac vein", "right", "cardiovascular system"),
        ("spleen", "spleen", "spleen", None, "lymphatic system"),
    ],
)
def test_readable_names(name: str, label: str, group: str, side: str | None, system: str) -> None:
    found = structure(name, "seg.nii.gz")
    assert (found.label, found.group, found.side, found.system) == (label, group, side, system)


def test_unknown_structure_is_refused() -> None:
    with pytest.raises(MedhebError, match=r"seg\.nii\.gz: holds the label 'gizzard'"):
        structure("gizzard", "seg.nii.gz")


def test_findings_line_is_ordered_by_size_not_by_input() -> None:
    areas = {structure("rib_left_9", ""): 1.2, structure("liver", ""): 150.0, structure("spleen", ""): 8.0}
    line = "Large: liver. Medium-sized: spleen. Small: left 9th rib."
    assert findings_line(areas) == line
    assert findings_line(dict(reversed(areas.items()))) == line


def test_organ_volume_writes_crops_slices_and_volumes(run_of: RunMaker) -> None:
    run = run_of(("person", "organ_volume", {**make.ORGANS, "captions": True}))
    make.lay_person(run.layout.source_files("person"))
    inventory = built(run, "person")
    crops = inventory.of_kind("crop")
    assert len(crops) == 2 * 4
    left = next(file for file in crops if file.facts["label"] == "left kidney")
    assert left.facts == {
        "mode": "L",
        "width": 32,
        "height": 32,
        "kind": "crop",
        "slice": 6,
        "label": "left kidney",
        "group": "kidney",
        "side": "left",
        "system": "urinary system",
        "modality": "CT",
        "subject": "person",
        "caption": "left kidney",
    }
    assert len(inventory.of_kind("voi")) == 3 * 4
    assert {file.facts["case"] for file in inventory.of_kind("voi")} == {
        f"person/{name}" for name in make.NAMES.values()
    }
    slices = inventory.of_kind("slice")
    assert [file.facts["slice"] for file in slices] == [4, 6, 8, 10]
    assert slices[0].facts["text"] == slices[0].facts["caption"]
    assert slices[0].facts["text"] == "Medium-sized: liver. Small: left kidney, right kidney."
    assert inventory.notes == (
        "slices with fewer than 3 structures, which got no findings line: 6",
        "pictures whose pixels another one of the source has, too: 18",
    )


def test_pictures_are_turned_the_way_radiologists_look_at_them(run_of: RunMaker) -> None:
    run = run_of(("person", "organ_volume", make.ORGANS))
    make.lay_person(run.layout.source_files("person"))
    built(run, "person")
    folder = run.layout.benchmark / "3D_Images" / "person"
    whole = np.asarray(Image.open(folder / "slices" / "slice_010.png"))
    assert whole.shape == (36, 48)
    bone = np.argwhere(whole == 255)
    assert bone[:, 0].mean() > whole.shape[0] / 2  # the spine lies at the back: lower half
    liver = np.argwhere(whole == 140)  # 60 HU in the window
    assert liver[:, 1].mean() < whole.shape[1] / 2  # the patient's right: left half
    assert liver[:, 0].mean() < whole.shape[0] / 2
    crop = np.asarray(Image.open(folder / "crops" / "vertebrae_T12_010.png"))
    assert crop[16, 16] == 255
    middle = np.asarray(Image.open(folder / "voi" / "vertebrae_T12" / "slice_001.png"))
    assert middle[16, 16] == 255


def test_masks_one_by_one_on_a_smaller_grid(run_of: RunMaker) -> None:
    masks = {"liver": "liver.nii.gz", "kidney_left": "left.nii.gz", "vertebrae_T12": "spine.nii.gz"}
    options = {**{k: v for k, v in make.ORGANS.items() if k != "label_map"}, "masks": masks}
    run = run_of(("person", "organ_volume", options), ("whole", "organ_volume", make.ORGANS))
    scan, labels = make.body()
    files = run.layout.source_files("person")
    make.save(files / "scan.nii.gz", scan)
    make.save(files / "liver.nii.gz", (labels == 1).astype(np.uint8))
    make.save(files / "left.nii.gz", (labels == 2).astype(np.uint8)[6:], shift=18.0)
    make.save(files / "spine.nii.gz", (labels == 4).astype(np.uint8))
    make.lay_person(run.layout.source_files("whole"))
    one_by_one = {file.path: file.content for file in built(run, "person").of_kind("crop")}
    whole = {file.path: file.content for file in built(run, "whole").of_kind("crop")}
    assert one_by_one == {path: digest for path, digest in whole.items() if "kidney_right" not in path}


def test_small_structures_are_left_out_and_named(run_of: RunMaker) -> None:
    run = run_of(("person", "organ_volume", {**make.ORGANS, "min_millilitres": 5.3}))
    make.lay_person(run.layout.source_files("person"))
    inventory = built(run, "person")
    assert {file.facts["label"] for file in inventory.of_kind("crop")} == {"liver", "left kidney", "right kidney"}
    assert "structures under 5.3 ml got no crops: T12 vertebra" in inventory.notes


def test_radiograph_and_slab_are_one_case(run_of: RunMaker) -> None:
    radiographs = {"height_mm": 24, "step_mm": 12, "parts": 2, "level": -250, "width": 900, "longest": 64}
    run = run_of(("person", "organ_volume", {**make.ORGANS, "radiographs": radiographs}))
    make.lay_person(run.layout.source_files("person"))
    inventory = built(run, "person")
    xrays, slabs = inventory.of_kind("xray"), inventory.of_kind("slab")
    assert [file.facts["case"] for file in xrays] == [f"person/slab_{level:02d}" for level in range(4)]
    assert [file.facts["case"] for file in slabs] == [case.facts["case"] for case in xrays for _ in range(2)]
    assert {file.facts["projector"] for file in xrays} == {"cone"}
    with Image.open(run.layout.benchmark / inventory.images / xrays[0].path) as picture:
        assert picture.size == (64, 13), "120 mm wide, 24 mm high"
        rows = np.asarray(picture).astype(int)
    # The large label of 60 HU is on the patient's right: the left half of the picture is brighter.
    assert rows[6, 8:28].sum() > rows[6, 36:56].sum()
    options = {**make.ORGANS, "radiographs": {**radiographs, "projector": "release"}}
    run = run_of(("published", "organ_volume", options))
    make.lay_person(run.layout.source_files("published"))
    assert {file.facts["projector"] for file in built(run, "published").of_kind("xray")} == {"release"}
    too_high = {**radiographs, "height_mm": 90}
    run = run_of(("tall", "organ_volume", {**make.ORGANS, "radiographs": too_high}))
    make.lay_person(run.layout.source_files("tall"))
    assert "is 60 mm high, less than one slab" in trouble(run, "tall")


def test_brain_levels_lie_at_fractions_of_the_brain(run_of: RunMaker) -> None:
    run = run_of(("high", "brain_slabs", make.BRAIN), ("low", "brain_slabs", make.BRAIN))
    for identifier, bottom in (("high", 8), ("low", 2)):
        scan = np.full((30, 30, 24), -1000, dtype=np.int16)
        for z in range(12):
            scan[8:22, 8 : 10 + z, bottom + z] = 40
        make.save(run.layout.source_files(identifier) / "scan.nii.gz", scan)
    high, low = built(run, "high"), built(run, "low")
    assert [file.content for file in high.files] == [file.content for file in low.files]
    assert [file.facts["level"] for file in high.files] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "scan.nii.gz").unlink(), "scan.nii.gz: is missing from the unpacked source"),
        (lambda f: (f / "scan.nii.gz").write_bytes(b"junk"), "scan.nii.gz: is not a readable NIfTI volume"),
        (
            lambda f: make.save(f / "labels.nii.gz", np.zeros((40, 30, 20), np.uint8), make.NAMES),
            "labels.nii.gz: is empty: not one labelled voxel",
        ),
        (
            lambda f: make.save(f / "labels.nii.gz", make.body()[1], {1: "liver"}),
            "holds label 2, which its header does not name",
        ),
        (
            lambda f: make.save(f / "labels.nii.gz", make.body()[1][:-1], make.NAMES, shift=300.0),
            "labels.nii.gz: reaches out of",
        ),
    ],
)
def test_bad_sources_become_a_failed_inventory(run_of: RunMaker, spoil: object, message: str) -> None:
    run = run_of(("person", "organ_volume", make.ORGANS))
    make.lay_person(run.layout.source_files("person"))
    spoil(run.layout.source_files("person"))  # type: ignore[operator]
    assert message in trouble(run, "person")


def test_an_empty_mask_is_named(run_of: RunMaker) -> None:
    options = {**{k: v for k, v in make.ORGANS.items() if k != "label_map"}, "masks": {"liver": "liver.nii.gz"}}
    run = run_of(("person", "organ_volume", options))
    make.save(run.layout.source_files("person") / "scan.nii.gz", make.body()[0])
    make.save(run.layout.source_files("person") / "liver.nii.gz", np.zeros((40, 30, 20), np.uint8))
    assert "label liver: is an empty label: not one voxel" in trouble(run, "person")


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("nonsense", {}, "names recipe 'nonsense', which this version does not have. It has brain_slabs"),
        ("organ_volume", {**make.ORGANS, "colour": 1}, "recipe.options: key 'colour' is not known"),
        ("organ_volume", {**make.ORGANS, "masks": {"liver": "a.nii"}}, "Allowed: either label_map or masks"),
        ("brain_slabs", {**make.BRAIN, "levels": 1}, "recipe.options: key 'levels' is 1"),
        ("brain_slabs", {**make.BRAIN, "foreground": 5000}, "holds hardly a voxel above 5000"),
        ("icd10cm", {"file": "a"}, "recipe.options: key 'file' is not known"),
        ("openi_reports", {}, "holds 0 files *.tgz, not one"),
        ("phenotypes", {}, "holds 0 files *.obo, not one"),
    ],
)
def test_wrong_recipes_become_a_failed_inventory(
    run_of: RunMaker, recipe: str, options: dict[str, object], message: str
) -> None:
    run = run_of(("person", recipe, options))
    make.lay_person(run.layout.source_files("person"))
    assert message in trouble(run, "person")


def test_icd10cm_rows(run_of: RunMaker, tmp_path: Path) -> None:
    run = run_of(("codes", "icd10cm", {}))
    xml = (
        "<ICD10CM.tabular><chapter><name>1</name><section><diag><name>A00</name><desc>Cholera</desc>"
        "<inclusionTerm><note>Asiatic cholera</note><note>Classical cholera</note></inclusionTerm>"
        "</diag></section></chapter></ICD10CM.tabular>"
    )
    (run.layout.source_files("codes") / "list.xml").write_text(xml)
    inventory = built(run, "codes")
    assert [file.path for file in inventory.files] == ["records.jsonl"]
    lines = (run.layout.benchmark / "3D_Images" / "codes" / "records.jsonl").read_text().splitlines()
    assert lines[0] == '{"group": "A00", "id": "A00/0", "query": "Asiatic cholera", "target": "Cholera"}'
    assert len(lines) == 2


def test_phenotype_rows(run_of: RunMaker) -> None:
    run = run_of(("signs", "phenotypes", {}))
    terms = (
        "[Term]\nid: HP:2\nname: Small head\n"
        'synonym: "Microcephaly" EXACT []\nsynonym: "Little head" EXACT layperson []\n'
    )
    (run.layout.source_files("signs") / "hp.obo").write_text(f"format-version: 1.2\n\n{terms}")
    inventory = built(run, "signs")
    assert [file.path for file in inventory.files] == ["records.jsonl"]
    lines = (run.layout.benchmark / "3D_Images" / "signs" / "records.jsonl").read_text().splitlines()
    assert lines == [
        '{"group": "HP:2", "id": "HP:2/0", "query": "Little head", "target": "Small head"}',
        '{"group": "HP:2", "id": "HP:2/1", "query": "Microcephaly", "target": "Small head"}',
    ]
