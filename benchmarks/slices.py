"""Slices and X-ray of one CT: the recipe of CT-RATE against the straightforward way (two whole reads).

Run as a script with the name of a way it makes the pictures of one scan in this one process; the benchmark runs each in
its own process, so that time and peak memory are those of one way alone. The recipe also checks, digests and lists what
it makes, within these figures.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from peak import peak_mb
from PIL import Image

SHAPE = (512, 512, 300)
SPACING = (0.75, 0.75, 1.5)
REPEATS = 2
SLOTS, LEVEL, WIDTH = 64, -600, 1500
# The largest scan of CT-RATE, and what a process may hold of it.
LARGEST, REPEATED, MEGABYTES_ALLOWED = (1024, 1024, 708), 12, 1500
LARGEST_LPS = np.diag([-0.4, -0.4, 0.5, 1.0])
SCAN = "dataset/valid_fixed/valid_1/valid_1_a/valid_1_a_1.nii.gz"
MANIFEST = Path(__file__).resolve().parents[1] / "manifests" / "datasets" / "ct_rate.yaml"


def make_phantom(path: Path) -> None:
    """A chest-like CT in int16 HU: smooth organs and quantum noise, so that it compresses like a real one."""
    import nibabel

    rng = np.random.default_rng(0)
    x, y = np.meshgrid(np.linspace(-1, 1, SHAPE[0]), np.linspace(-1, 1, SHAPE[1]), indexing="ij")
    volume = np.empty(SHAPE, dtype=np.int16, order="F")
    for z in range(SHAPE[2]):
        wave = 0.05 * np.sin(z / 40)
        plane = np.full(SHAPE[:2], -1000.0)
        plane[(x / 0.8) ** 2 + (y / 0.6) ** 2 < 1] = 40
        for side in (-0.35, 0.35):
            lung = ((x - side) / (0.28 + wave)) ** 2 + (y / 0.42) ** 2 < 1
            plane[lung] = -850 + 120 * np.sin(9 * x + z / 15)[lung] * np.cos(11 * y)[lung]
        plane[(x / 0.08) ** 2 + ((y - 0.42) / 0.1) ** 2 < 1] = 500
        plane[np.abs(y - 0.75) < 0.02] = -300
        volume[:, :, z] = plane + rng.normal(0, 18, SHAPE[:2]) * (plane > -990)
    image = nibabel.Nifti1Image(volume, np.diag([-SPACING[0], -SPACING[1], SPACING[2], 1.0]))
    nibabel.save(image, path)


def make_largest(path: Path, affine: np.ndarray = LARGEST_LPS) -> None:
    """A CT as large as any: a block of slices packed once, and again and again; gzip readers join its members."""
    import nibabel

    rng = np.random.default_rng(0)
    x, y = np.meshgrid(np.linspace(-1, 1, LARGEST[0]), np.linspace(-1, 1, LARGEST[1]), indexing="ij")
    plane = np.full(LARGEST[:2], -1000.0)
    plane[(x / 0.8) ** 2 + (y / 0.6) ** 2 < 1] = 40
    for side in (-0.35, 0.35):
        plane[((x - side) / 0.28) ** 2 + (y / 0.42) ** 2 < 1] = -850
    plane[(x / 0.08) ** 2 + ((y - 0.42) / 0.1) ** 2 < 1] = 500
    noise = rng.normal(0, 18, (REPEATED, *LARGEST[:2]))
    block = np.stack([plane + own * (plane > -990) for own in noise], axis=2).astype(np.int16)
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.int16)
    header.set_data_shape(LARGEST)
    header.set_sform(affine, 1)
    header["vox_offset"] = 352
    header["magic"] = b"n+1"
    packed = gzip.compress(block.tobytes(order="F"), 1)
    with path.open("wb") as stream:
        stream.write(gzip.compress(header.binaryblock + bytes(4)))
        for _ in range(LARGEST[2] // REPEATED):
            stream.write(packed)


def ours(scan: Path, out: Path, protocol: str = "release", projector: str = "release") -> None:
    """The recipe, from the download's layout to the canonical one: one pass over the file for both products."""
    from medheb.build.run import build_from
    from medheb.manifest.load import load_dataset

    made = build_from(load_dataset(MANIFEST), scan.parents[4], out / "built", protocol, projector)  # type: ignore[arg-type]
    if len(made.files) != SLOTS + 2 or made.refusals:
        sys.exit(f"{len(made.files)} files, refused: {made.refusals}")
    for name in list((out / "built").rglob("*.png")):
        os.replace(name, out / name.name)


def corrected(scan: Path, out: Path) -> None:
    """The recipe with slices for display and an X-ray by ``cone``."""
    ours(scan, out, "corrected", "cone")


def plain(scan: Path, out: Path) -> None:
    """Two whole reads, whole-array steps, Pillow's defaults. The body mask is ours, which is the faster one here."""
    import nibabel

    from medheb.imaging.drr.body_mask import body_mask
    from medheb.imaging.drr.release import resize

    volume = np.asarray(nibabel.load(scan).dataobj)
    for slot, index in enumerate(np.linspace(0, volume.shape[2] - 1, SLOTS, dtype=int)):
        plane = volume[:, :, index].astype(np.float32)
        grey = np.clip((plane - (LEVEL - WIDTH / 2)) / WIDTH * 255, 0, 255).astype(np.uint8)
        Image.fromarray(grey).save(out / f"slice_{slot:03d}.png")
    image = nibabel.load(scan)
    hounsfield = np.asarray(image.dataobj).astype(np.float32)
    zooms = [float(size) for size in image.header.get_zooms()]
    mu = np.maximum(0.0025 * (np.clip(hounsfield, -1000, 1200) / 1000 + 1), 0).astype(np.float32)
    mask = np.stack([body_mask(hounsfield[:, :, z].T).T for z in range(hounsfield.shape[2])], axis=2)
    mu = mu * mask.astype(np.float32)
    transmission = np.exp(-(mu.sum(axis=1) * zooms[1]))
    low, high = np.percentile(transmission, [0.5, 99.5])
    stretched = (np.clip(transmission, low, high) - low) / (high - low + 1e-8)
    picture = np.clip(1 - stretched, 0, 1).astype(np.float32).T[::-1]
    finest = min(zooms[0], zooms[2])
    height, width = (round(n * (mm / finest)) for n, mm in zip(picture.shape, (zooms[2], zooms[0]), strict=True))
    picture = resize(picture, height, width)
    bright = picture > np.percentile(picture, 3)
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    picture = picture[max(0, rows[0] - 8) : rows[-1] + 8, max(0, columns[0] - 8) : columns[-1] + 8]
    Image.fromarray((picture * 255).astype(np.uint8)).save(out / "drr_ap.png")


def run_one(way: str, scan: Path, out: Path) -> dict[str, float]:
    """Seconds and peak memory of one way in a process of its own, imports not counted."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, __file__, way, str(scan), str(out)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def differences(first: Path, second: Path) -> tuple[int, int]:
    """Slices whose pixels differ, and the largest difference of the X-rays in grey levels."""
    names = sorted(path.name for path in first.glob("slice_*.png"))
    if len(names) != SLOTS or names != sorted(path.name for path in second.glob("slice_*.png")):
        sys.exit("the two ways made different files")

    def pixels(path: Path) -> np.ndarray:
        return np.asarray(Image.open(path))

    def digest(path: Path) -> str:
        return hashlib.sha256(pixels(path).tobytes()).hexdigest()

    different = sum(digest(first / name) != digest(second / name) for name in names)
    one, other = (pixels(folder / "drr_ap.png").astype(int) for folder in (first, second))
    if one.shape != other.shape:
        sys.exit(f"the X-rays have the sizes {one.shape} and {other.shape}")
    return different, int(np.abs(one - other).max())


def bench_slices(work: Path) -> dict[str, float]:
    """Figures for `make bench`; pixels are compared, not assumed."""
    scan = work / SCAN
    scan.parent.mkdir(parents=True, exist_ok=True)
    make_phantom(scan)
    repeats = [(run_one("plain", scan, work / "plain"), run_one("ours", scan, work / "ours")) for _ in range(REPEATS)]
    different, level = differences(work / "plain", work / "ours")
    if different or level > 1:
        sys.exit(f"{different} slices differ, the X-rays by {level} levels")
    seconds = [min(pair[way]["seconds"] for pair in repeats) for way in (0, 1)]
    megabytes = [max(pair[way]["megabytes"] for pair in repeats) for way in (0, 1)]
    return {
        "plain_seconds": seconds[0],
        "seconds": seconds[1],
        "throughput_ratio": seconds[0] / seconds[1],
        "cpu_ratio": min(pair[0]["cpu"] for pair in repeats) / min(pair[1]["cpu"] for pair in repeats),
        "plain_mb": megabytes[0],
        "peak_mb": megabytes[1],
        "memory_share": megabytes[1] / megabytes[0],
        "slices_different": different,
        "xray_levels": level,
    }


def bench_largest(work: Path) -> dict[str, float]:
    """Peak memory of the recipe on the largest scan, for both protocols' pictures."""
    scan = work / SCAN
    scan.parent.mkdir(parents=True, exist_ok=True)
    make_largest(scan)
    found: dict[str, float] = {"megabytes_of_voxels": np.prod(LARGEST, dtype=np.float64) * 2 / 1e6}
    for way, name in (("ours", "release"), ("corrected", "cone")):
        figures = run_one(way, scan, work / name)
        found |= {f"{name}_cpu": figures["cpu"], f"{name}_mb": figures["megabytes"]}
        found[f"{name}_of_allowed"] = figures["megabytes"] / MEGABYTES_ALLOWED
    return found


def main() -> None:
    """Make the pictures of one scan in this process and print seconds and peak memory."""
    way, scan, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    import nibabel  # noqa: F401  (both ways need it; its import is not what is measured)

    import medheb.build.ct_rate
    import medheb.build.run  # noqa: F401  (imports are not what is measured)

    started, worked = time.perf_counter(), time.process_time()
    {"ours": ours, "plain": plain, "corrected": corrected}[way](scan, out)
    figures = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - worked, "megabytes": peak_mb()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
