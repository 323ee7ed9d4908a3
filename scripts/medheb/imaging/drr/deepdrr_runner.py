"""The ``deepdrr`` projector: the library itself, as a process of its own in its own environment.

DeepDRR is under the GPL, wants its own NumPy and a CUDA device, so it is never imported here (``deepdrr_process.py``
says what runs there). ``envs/deepdrr.txt`` pins its environment; the variable ``MEDHEB_DEEPDRR_PYTHON`` or the setting
``deepdrr_python`` names its interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medheb.core.errors import BlockedError, MedhebError
from medheb.imaging.drr.beam import Beam
from medheb.imaging.drr.geometry import Geometry, middle
from medheb.imaging.drr.preparation import Float32, check_grid, check_hu
from medheb.imaging.volume import Volume

PYTHON_VARIABLE = "MEDHEB_DEEPDRR_PYTHON"
PROCESS = Path(__file__).with_name("deepdrr_process.py")
STEP_MM = 0.1
SECONDS_ALLOWED = 1800
NOT_HERE = ("machine", "environment")  # stages that fail where DeepDRR cannot be expected to run


class DeepdrrError(BlockedError):
    """DeepDRR does not run here; ``stage`` is "machine", "environment" or "projection"."""

    def __init__(self, where: str, stage: str, reason: str) -> None:
        self.stage = stage
        named = f"{PYTHON_VARIABLE} (in a run also the setting drr.python)"
        remedies = {
            "machine": f"Run this on a machine with a CUDA device, with DeepDRR's environment named by {named}, "
            "or choose the projector cone",
            "environment": f"Install envs/deepdrr.txt in its own environment and name its python by {named}",
            "projection": "See docs/drr.md, or choose the projector cone",
        }
        super().__init__(where, reason, remedies.get(stage, remedies["projection"]))


@dataclass(frozen=True)
class DeepdrrResult:
    """What DeepDRR made of one view.

    Args:
        intensity: keV per emitted photon, (H, W), in display orientation.
        neglog: DeepDRR's own display of it, 0 to 1.
        beam: the spectrum and attenuation that it used.
        software: versions of the library and of what it runs on.
    """

    intensity: Float32
    neglog: Float32
    beam: Beam
    software: dict[str, Any]


def deepdrr_python(named: str | None = None) -> str:
    """Interpreter of DeepDRR's environment: as named, else from the variable, else the running one."""
    return named or os.environ.get(PYTHON_VARIABLE) or sys.executable


def project_deepdrr(
    volume: Volume, geometry: Geometry, spectrum: str, python: str | None = None, step_mm: float = STEP_MM
) -> DeepdrrResult:
    """Project one view with DeepDRR.

    Args:
        volume: CT in HU, in canonical order.
        geometry: the view, handed over as explicit matrices: DeepDRR's ready-made views are upside down or mirrored.
        spectrum: one of DeepDRR's names.
        python: see :func:`deepdrr_python`.
        step_mm: length of its steps along a ray.

    Raises:
        DeepdrrError: no CUDA device, no environment, or a failure inside DeepDRR.
        MedhebError: not HU, or sheared.
    """
    check_hu(volume)
    check_grid(volume)
    request = {
        "affine": volume.affine.tolist(),
        "intrinsic": geometry.intrinsic().tolist(),
        "camera_from_world": geometry.camera_from_world(middle(volume)).tolist(),
        "pixels": geometry.pixels,
        "pixel_mm": geometry.pixel_mm,
        "spectrum": spectrum,
        "step_mm": step_mm,
    }
    with tempfile.TemporaryDirectory(prefix="medheb_deepdrr_") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        np.save(folder / "hu.npy", volume.array, allow_pickle=False)
        result = _run(deepdrr_python(python), folder, volume.where)
        pictures = [np.load(folder / f"{part}.npy", allow_pickle=False) for part in ("intensity", "neglog")]
    if geometry.mirrored:
        pictures = [picture[:, ::-1] for picture in pictures]
    entry = result.pop("beam")
    energies, share, attenuation = (
        np.array(entry[key], dtype=np.float64) for key in ("energies", "share", "attenuation")
    )
    origin = dict.fromkeys(("spectra", "attenuation"), f"DeepDRR {result['deepdrr']}")
    beam = Beam(spectrum, energies, share, attenuation, origin)
    return DeepdrrResult(np.ascontiguousarray(pictures[0]), np.ascontiguousarray(pictures[1]), beam, result)


def _run(python: str, folder: Path, where: str) -> dict[str, Any]:
    """Run the process on ``folder`` and read its answer."""
    try:
        done = subprocess.run(
            # -I: neither PYTHONPATH nor the folder of the process may lead it to the workflow's modules.
            [python, "-I", str(PROCESS), str(folder)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS_ALLOWED,
            check=False,
        )
    except OSError as error:
        raise DeepdrrError(where, "environment", f"{python} does not start ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise DeepdrrError(where, "projection", f"DeepDRR takes more than {SECONDS_ALLOWED} s") from error
    answer = folder / "result.json"
    if not answer.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        if last.startswith(("ModuleNotFoundError", "ImportError")):  # of NumPy, which the process itself needs
            raise DeepdrrError(where, "environment", f"{python} is no python of DeepDRR's environment ({last})")
        raise DeepdrrError(where, "projection", f"DeepDRR's process ended with code {done.returncode} ({last})")
    result: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if not result.pop("ok"):
        raise DeepdrrError(where, result["stage"], result["reason"])
    return result


def check_spectrum(name: str) -> None:
    """Refuse a spectrum that DeepDRR does not have under this name."""
    known = ("60KV_AL35", "90KV_AL40", "120KV_AL43")
    if name not in known:
        raise MedhebError("X-ray spectrum", f"{name!r} is unknown to DeepDRR", f"Use one of: {', '.join(known)}")
