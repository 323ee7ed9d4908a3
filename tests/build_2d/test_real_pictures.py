"""Real pictures and DICOM files as cells of a table: each is built, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import make_sets as make
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import built
from PIL import Image

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "2d"
REFUSED = {
    ".dcm": {"is a DICOM file, not a plain picture", "is not a picture, or its first bytes are damaged"},
    ".json": {"is not a picture, or its first bytes are damaged"},
    ".csv": {"is not a picture, or its first bytes are damaged"},
    ".md": {"is not a picture, or its first bytes are damaged"},
}
UNUSUAL = {
    "16bit.cropped.tif": "TIFF under the name of a JPEG file",
    "RCM_tile_with_exif.png": "PNG under the name of a JPEG file",
    "cell.png": "PNG under the name of a JPEG file",
}


def test_every_real_sample_is_built_or_refused(tmp_path: Path) -> None:
    files = sorted(path for path in SAMPLES.glob("*") if path.is_file())
    if not files:
        pytest.skip(f"no real samples at {SAMPLES}")
    make.lay_roco_vqa(tmp_path / "in")
    table = {
        "image": pa.array([make.cell(path.read_bytes()) for path in files], make.PICTURE),
        "question": pa.array([path.name for path in files]),
        "answer": pa.array(["yes"] * len(files)),
    }
    name = "Test-00000-of-00001-91a106d1a22c7cc9.parquet"
    pq.write_table(pa.table(table), tmp_path / "in" / "data" / name)
    made = built("roco_vqa", tmp_path / "in", tmp_path / "out")
    by_row = {f"{tmp_path}/in/data/{name}, row {row}": path.name for row, path in enumerate(files)}
    refused = {by_row[refusal.where]: refusal for refusal in made.refusals if refusal.where in by_row}
    kept = {str(file.facts["question"]): file for file in made.of_kind("picture")}
    for path in files:
        print(f"{path.name}: {refused[path.name].fault if path.name in refused else 'built'}")
        assert (path.name in refused) != (path.name in kept), path.name
        if path.suffix in REFUSED:
            assert refused[path.name].fault in REFUSED[path.suffix], path.name
            assert refused[path.name].remedy, path.name
    assert refused["truncated.jpg"].fault == "is a picture whose end is missing"
    folder = tmp_path / "out" / made.images
    for path in files:
        if path.name in kept:
            assert (folder / kept[path.name].path).read_bytes() == path.read_bytes(), "bytes as stored"
    for sample, text in UNUSUAL.items():
        if sample in kept:
            assert kept[sample].facts["unusual"] == text


def test_real_pictures_as_tiles_become_rgb(tmp_path: Path) -> None:
    files = [path for path in sorted(SAMPLES.glob("*")) if path.suffix in {".jpg", ".png", ".tif"}]
    if not files:
        pytest.skip(f"no real samples at {SAMPLES}")
    make.lay_pannuke(tmp_path / "in")
    rows = []
    for path in files:
        try:
            with Image.open(path) as image:
                width, height = image.size
        except OSError:
            width, height = 48, 40
        rows.append((make.cell(path.read_bytes()), 0, [np.pad(make.mask(), ((0, height - 40), (0, width - 48)))], [1]))
    make.put_tiles(tmp_path / "in" / "data" / "real.parquet", rows)
    made = built("pannuke", tmp_path / "in", tmp_path / "out")
    assert [refusal.fault for refusal in made.refusals] == ["is a picture whose end is missing"]
    built_ones = [file for file in made.of_kind("region_picture") if "/real/" in file.path]
    assert len(built_ones) == len(files) - 1
    for file in built_ones:
        with Image.open(tmp_path / "out" / made.images / file.path) as image:
            assert image.mode == "RGB"
