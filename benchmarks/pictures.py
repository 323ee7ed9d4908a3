"""MedMNIST at 224 and PanNuke to pictures: our builds against a straightforward loop, one process each.

The loop reads the whole archive or table and saves row by row with Pillow's defaults; our side is the whole build with
its checks, digests and inventory. Pixels are compared, not assumed. Run as a script it does one of the four ways in
one process of its own, so that time and peak memory are those of one way alone.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peak import peak_mb
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SIDE, TILE, REPEATS = 224, 256, 2
ROWS = {"train": 1500, "val": 100, "test": 300}
TILES, GROUP_ROWS, NUCLEI = 300, 100, 24


def tissue(rng: np.random.Generator, side: int) -> np.ndarray:
    """Stained tissue: smooth colours, cells, and the noise of a scanner, uint8 (side, side, 3)."""
    y, x = np.mgrid[0:side, 0:side].astype(np.float32)
    a, b = rng.uniform(15, 40, 2)
    base = np.stack([170 + 50 * np.sin(x / a + k) * np.cos(y / b) for k in range(3)], axis=-1)
    for cx, cy in rng.uniform(0, side, (NUCLEI, 2)):
        base[(x - cx) ** 2 + (y - cy) ** 2 < 40] -= 70
    return np.clip(base + rng.normal(0, 5, base.shape), 0, 255).astype(np.uint8)


def make_archive(path: Path) -> None:
    """PathMNIST in small, compressed as its publisher does."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for split, count in ROWS.items():
        some = np.stack([tissue(rng, SIDE) for _ in range(50)])
        arrays[f"{split}_images"] = np.concatenate([np.roll(some, 3 * k, axis=1) for k in range(-(-count // 50))])[
            :count
        ]
        arrays[f"{split}_labels"] = (np.arange(count) % 9).astype(np.uint8)[:, None]
    np.savez_compressed(path, **arrays)


def png(image: Image.Image) -> bytes:
    """A PNG file with Pillow's defaults, as the hub's tables hold them."""
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def make_tables(root: Path) -> None:
    """Three folds of PanNuke in small, and the list of the test pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    (root / "data").mkdir(parents=True, exist_ok=True)
    tissues = ["Adrenal Gland", "Bile Duct", "Bladder"]
    lines = ["image_path,split"]
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for fold in (1, 2, 3):
        images, masks = [], []
        for _ in range(TILES // 3):
            images.append({"bytes": png(Image.fromarray(tissue(rng, TILE))), "path": None})
            cells = []
            for cx, cy in rng.integers(10, TILE - 10, (NUCLEI, 2)):
                mask = np.zeros((TILE, TILE), bool)
                mask[cy - 7 : cy + 8, cx - 6 : cx + 7] = True
                cells.append({"bytes": png(Image.fromarray(mask)), "path": None})
            masks.append(cells)
        numbers = [row % 3 for row in range(len(images))]
        lines += [
            f"{tissues[number]}/fold{fold}_{row:08d}.png,{'test' if row % 8 == 0 else 'train'}"
            for row, number in enumerate(numbers)
        ]
        table = pa.table(
            {
                "image": pa.array(images, picture),
                "instances": pa.array(masks, pa.list_(picture)),
                "categories": pa.array([[k % 5 for k in range(NUCLEI)]] * len(images), pa.list_(pa.int64())),
                "tissue": pa.array(numbers, pa.int64()),
            }
        )
        pq.write_table(table, root / "data" / f"fold{fold}-00000-of-00001.parquet", row_group_size=GROUP_ROWS)
    (root / "PanNuke_split.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def plain_medmnist(source: Path, out: Path) -> None:
    """Whole arrays, row by row."""
    archive = np.load(source / "pathmnist_224.npz")
    for split in ROWS:
        images, labels = archive[f"{split}_images"], archive[f"{split}_labels"]
        for row in range(len(images)):
            folder = out / split / str(labels[row][0])
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[row]).save(folder / f"{split}_{row:06d}.png")


def plain_pannuke(source: Path, out: Path) -> None:
    """Whole tables, row by row; the same pictures, crops and places."""
    import pyarrow.parquet as pq

    tissues, kinds = ["Adrenal Gland", "Bile Duct", "Bladder"], ["Neoplastic", "Inflammatory", "Connective", "Dead"]
    kinds.append("Epithelial")
    listed = dict(line.split(",") for line in (source / "PanNuke_split.csv").read_text().splitlines()[1:])
    for fold, path in enumerate(sorted((source / "data").glob("*.parquet")), start=1):
        for row, cells in enumerate(pq.read_table(path).to_pylist()):
            image = Image.open(io.BytesIO(cells["image"]["bytes"])).convert("RGB")
            name = f"fold{fold}_{row:08d}.png"
            key = f"{tissues[cells['tissue']]}/{name}"
            target = out / f"{listed[key]}_images" / key
            target.parent.mkdir(parents=True, exist_ok=True)
            image.save(target)
            target = out / "PanNuke_VG" / "images" / path.stem / f"{path.stem}_{row:06d}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            image.save(target)
            folder = out / "PanNuke_VG" / "crops" / path.stem
            folder.mkdir(parents=True, exist_ok=True)
            for number, (cell, kind) in enumerate(zip(cells["instances"], cells["categories"], strict=True)):
                mask = np.array(Image.open(io.BytesIO(cell["bytes"])).convert("L")) > 0
                y, x = np.where(mask)
                sides = []
                for low, high in ((x.min(), x.max() + 1), (y.min(), y.max() + 1)):
                    length = min(max(high - low, 28), TILE)
                    start = min(max(round((low + high) / 2 - length / 2), 0), TILE - length)
                    sides.append((int(start), int(start + length)))
                box = (sides[0][0], sides[1][0], sides[0][1], sides[1][1])
                image.crop(box).save(folder / f"{path.stem}_{row:06d}_{kinds[kind].lower()}_{number:03d}.png")


def ours(dataset: str) -> Callable[[Path, Path], None]:
    """The build of a source by its own manifest, as ``medheb build`` does it with one worker."""

    def build(source: Path, out: Path) -> None:
        from medheb.build.run import build_from
        from medheb.manifest.load import load_dataset

        manifest = load_dataset(ROOT / "manifests" / "datasets" / f"{dataset}.yaml")
        build_from(manifest, source, out, "release", "release")

    return build


WAYS = {
    "medmnist": {"plain": plain_medmnist, "ours": ours("pathmnist")},
    "pannuke": {"plain": plain_pannuke, "ours": ours("pannuke")},
}


def run_one(what: str, way: str, source: Path, out: Path) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of one way in a process of its own, imports not counted."""
    command = [sys.executable, __file__, what, way, str(source), str(out)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def pixels(folder: Path) -> dict[str, bytes]:
    """Samples of all pictures by name; names are unique within the folders that are compared."""
    found = {}
    for path in folder.rglob("*.png"):
        with Image.open(path) as image:
            found[path.name] = f"{image.mode} {image.size} ".encode() + image.tobytes()
    return found


def bench(what: str, work: Path, source: Path, folder: str) -> dict[str, float]:
    """Both ways in turn, a few times; figures for `make bench`."""
    repeats = [[run_one(what, way, source, work / way) for way in ("plain", "ours")] for _ in range(REPEATS)]
    one, other = pixels(work / "plain"), pixels(work / "ours" / folder)
    if not one or one != other:
        sys.exit(f"{what}: the two ways made different pictures")
    plain, mine = ([pair[index] for pair in repeats] for index in (0, 1))
    return {
        "pictures": len(one),
        "plain_seconds": min(figures["seconds"] for figures in plain),
        "seconds": min(figures["seconds"] for figures in mine),
        "throughput_ratio": min(f["seconds"] for f in plain) / min(f["seconds"] for f in mine),
        "cpu_ratio": min(f["cpu"] for f in plain) / min(f["cpu"] for f in mine),
        "plain_mb": max(figures["megabytes"] for figures in plain),
        "peak_mb": max(figures["megabytes"] for figures in mine),
        "added_mb": max(figures["megabytes"] - figures["before"] for figures in mine),
    }


def bench_pictures(work: Path) -> dict[str, dict[str, float]]:
    """Figures of both sources by the name of the benchmark."""
    mnist, tiles = work / "medmnist", work / "pannuke"
    (mnist / "in").mkdir(parents=True, exist_ok=True)
    make_archive(mnist / "in" / "pathmnist_224.npz")
    make_tables(tiles / "in")
    return {
        "medmnist_224": bench("medmnist", mnist, mnist / "in", "2D_Images/PathMNIST/output_images"),
        "pannuke": bench("pannuke", tiles, tiles / "in", "2D_Images/PanNuke"),
    }


def main() -> None:
    """Do one way in this process and print its figures."""
    what, way, source, out = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])
    import pyarrow.parquet

    import medheb.build.medmnist2d
    import medheb.build.pannuke
    import medheb.build.run  # noqa: F401

    # What is done once a process is not what is measured: imports, and the search for pandas at the first array.
    pyarrow.array([0])
    before, started, worked = peak_mb(), time.perf_counter(), time.process_time()
    WAYS[what][way](source, out)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    print(json.dumps({"seconds": seconds, "cpu": processor, "megabytes": peak_mb(), "before": before}))


if __name__ == "__main__":
    main()
