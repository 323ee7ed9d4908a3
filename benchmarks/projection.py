"""Figures of the X-ray projectors: ``python benchmarks/projection.py``. One line each, as in ``run.py``.

A CT of 512 x 512 x 300 (int16, ``.nii.gz``) to one picture of 512 x 512, each projector in a process of its own with
one thread: processor seconds of the projection alone and of the process with reading, and its peak memory. Beside them,
in the same run, plastimatch and nanodrr, which trace one energy only, if the environment variable MEDHEB_BENCH_PEERS
names a Python that has them (``pip install plastimatch==1.10.0 nanodrr==0.1.7``). ``correlation`` is with the picture
of ``cone``: a peer that looks another way would be no comparison.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import nibabel
import numpy as np
from run import show

PEERS_VARIABLE = "MEDHEB_BENCH_PEERS"
SECONDS_ALLOWED, MEGABYTES_ALLOWED = 2.5, 300
SHAPE, SPACING_MM = (512, 512, 300), (0.7, 0.7, 1.0)
ROUNDS = 3

COMMON = """
import json, sys, time
from pathlib import Path
import numpy as np
def done(picture, seconds):
    np.save(sys.argv[2], np.asarray(picture, dtype=np.float32))
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024 / 1e6
    print(json.dumps({"seconds": seconds, "process_seconds": time.process_time(), "peak_mb": peak}))
"""
CONE = """
from medheb.imaging.drr.geometry import Geometry
from medheb.imaging.drr.xray import XraySettings, project
from medheb.imaging.nifti import read_nifti
volume = read_nifti(Path(sys.argv[1]))
started = time.process_time()
made = project(volume, "cone", XraySettings(Geometry(view="AP")))
done(made.logarithm, time.process_time() - started)
"""
NANODRR = """
import torch
torch.set_num_threads(1)
from nanodrr.camera import make_k_inv, make_rt_inv
from nanodrr.data import Subject
from nanodrr.drr import render
subject = Subject.from_filepath(sys.argv[1])
inner = make_k_inv(1800.0, 430 / 512, 430 / 512, 0.0, 0.0, 512, 512)
outer = make_rt_inv(torch.zeros(1, 3), torch.tensor([[0.0, 1600.0, 0.0]]), "AP", subject.isocenter)
started = time.process_time()
with torch.no_grad():
    picture = render(subject, inner, outer, torch.tensor([1800.0]), 512, 512, n_samples=500)
done(picture[0, 0].numpy(), time.process_time() - started)
"""


def write_ct(path: Path) -> None:
    """A trunk: skin, lungs, heart, spine and ribs, with noise, as an LPS file."""
    x = (np.arange(SHAPE[0]) - 255.5)[:, None]
    y = (np.arange(SHAPE[1]) - 255.5)[None, :]
    rng = np.random.default_rng(0)
    array = np.full(SHAPE, -1000, dtype=np.int16, order="F")
    trunk, rib = (x / 230) ** 2 + (y / 160) ** 2, np.abs(np.sqrt((x / 215) ** 2 + (y / 145) ** 2) - 1) < 0.03
    for k in range(SHAPE[2]):
        plane = array[:, :, k]
        plane[trunk < 1] = 40
        for side in (-110, 110):
            plane[((x - side) / 85) ** 2 + (y / 120) ** 2 + ((k - 180) / 120) ** 2 < 1] = -850
        plane[((x - 40) / 60) ** 2 + ((y + 50) / 50) ** 2 + ((k - 110) / 60) ** 2 < 1] = 50
        plane[(x / 25) ** 2 + ((y - 110) / 25) ** 2 < 1] = 400 if k % 30 < 24 else 60
        if k % 24 < 8:
            plane[rib] = 700
        plane += rng.integers(-12, 13, plane.shape, dtype=np.int16)
    nibabel.save(nibabel.Nifti1Image(array, np.diag([-SPACING_MM[0], -SPACING_MM[1], SPACING_MM[2], 1])), path)


def environment() -> dict[str, str]:
    """One thread in every numerical library."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}


def measured(python: str, code: str, ct: Path, picture: Path) -> dict[str, float]:
    """Best of a few runs of ``code``: seconds of the projection, of the process, and its peak memory."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS if code is CONE else 1):
        command = [python, "-c", COMMON + code, str(ct), str(picture)]
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        if not best or found["seconds"] < best["seconds"]:
            best = found
    return best


def has(python: str, module: str) -> bool:
    """Whether ``python`` has ``module``."""
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def plastimatch(python: str, ct: Path, folder: Path) -> tuple[dict[str, float], np.ndarray]:
    """The uniform algorithm of plastimatch from its command line, and its picture (PFM)."""
    middle = " ".join(str((n - 1) / 2 * mm) for n, mm in zip(SHAPE, SPACING_MM, strict=True))
    options = ["-i", "uniform", "-P", "inline", "-r", "512 512", "-z", "430 430", "-n", "0 -1 0", "-o", middle]
    options += ["--sad", "1600", "--sid", "1800", "-t", "pfm", "-O", str(folder / "peer_"), "-I", str(ct)]
    code = (
        "import sys, resource, subprocess; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)"
    )
    command = [python, "-c", code, str(Path(python).parent / "plastimatch"), "drr", *options]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = (float(part) for part in done.stdout.split())
    with next(folder.glob("peer_*.pfm")).open("rb") as stream:
        stream.readline()
        columns, rows = (int(part) for part in stream.readline().split())
        kind = "<f4" if float(stream.readline()) < 0 else ">f4"
        picture = np.frombuffer(stream.read(), dtype=kind).reshape(rows, columns)
    return {"process_seconds": seconds, "peak_mb": megabytes}, picture


def bench_projection() -> None:
    """``cone`` against what is allowed, and beside the peers that are installed."""
    python = os.environ.get(PEERS_VARIABLE, "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ct, picture = folder / "ct.nii.gz", folder / "picture.npy"
        write_ct(ct)
        ours = measured(sys.executable, CONE, ct, picture)
        shown = np.load(picture, allow_pickle=False)
        show(
            "xray_cone",
            **ours,
            of_allowed=ours["seconds"] / SECONDS_ALLOWED,
            of_allowed_mb=ours["peak_mb"] / MEGABYTES_ALLOWED,
        )
        for peer, code in (("nanodrr", NANODRR), ("plastimatch", "")):
            if not python or not has(python, peer):
                print(f"bench xray_{peer} peer not installed: {PEERS_VARIABLE} names no Python that has it", flush=True)
                continue
            if code:
                found = measured(python, code, ct, picture)
                theirs = np.load(picture, allow_pickle=False)
                found["times_cone"] = found["seconds"] / ours["seconds"]
            else:
                found, theirs = plastimatch(python, ct, folder)
            found["process_times_cone"] = found["process_seconds"] / ours["process_seconds"]
            found["times_cone_mb"] = found["peak_mb"] / ours["peak_mb"]
            show(f"xray_{peer}", **found, correlation=float(np.corrcoef(shown.ravel(), theirs.ravel())[0, 1]))


if __name__ == "__main__":
    bench_projection()
