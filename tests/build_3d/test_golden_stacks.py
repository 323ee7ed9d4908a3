"""Published pictures of MedMNIST 3D, MRNet and MMDental against ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import Golden

MEDMNIST = {
    "mnist3d_organ": ("organmnist3d", "Qrgan3DMINist"),
    "mnist3d_nodule": ("nodulemnist3d", "NoduleMINist"),
    "mnist3d_synapse": ("synapsemnist3d", "SynapseMNIST"),
}


@pytest.mark.parametrize("script", MEDMNIST)
def test_medmnist3d_as_published(golden: Golden, tmp_path: Path, script: str) -> None:
    dataset, folder = MEDMNIST[script]
    made = golden.build(dataset, "mnist3d", tmp_path)
    report = golden.compare(script, made, lambda path: path.removeprefix(f"{folder}/"))
    assert report.good, report
    assert len(made.pictures) == golden.expected(script)["counts"]["images"]
    for path, table in golden.expected(script)["csv"].items():
        rows = (made.folder / path.removeprefix(f"{folder}/")).read_text().splitlines()
        assert rows[0] == "sample_index,label_index"
        assert len(rows) == table["rows"] + 1
    print(report)


def test_mrnet_as_published(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("mrnet", "mrnet", tmp_path)
    report = golden.compare(
        "mrnet", made, lambda path: path.removeprefix("MRNet/MRNet-v1.0/").replace("_slides/", "_images/")
    )
    assert report.good, report
    assert len(made.pictures) == golden.expected("mrnet")["counts"]["images"]
    print(report)


def test_mmdental_as_published(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("mmdental", "mmdental", tmp_path)
    report = golden.compare("mmdental", made)
    assert report.good, report
    assert len(made.pictures) == golden.expected("mmdental")["counts"]["images"]
    refused = sorted(refusal.where.rsplit("/", 1)[1] for refusal in made.inventory.refusals)
    assert refused == ["case03", "case04", "case06.nii.gz", "medical_records.csv"]
    print(report)
