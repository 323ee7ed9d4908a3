"""The ``deepdrr`` projector's own process: runs under the interpreter of its environment, never inside the workflow's.

    python deepdrr_process.py FOLDER

``FOLDER/request.json`` and ``FOLDER/hu.npy`` say what to project; ``FOLDER/result.json`` says how it went, beside
``intensity.npy`` and ``neglog.npy``. Only NumPy and DeepDRR are used here, as no part of MedHEB is installed there.

Before DeepDRR 1.2.2 can be imported and run without a display, a few things must be put right from outside:

* open3d, pyvista, vtk (1.5 GB) and torchvision are imported, not needed for volumes: empty modules stand in for those
  that are absent or do not load;
* ``cuda.cudart`` is gone from cuda-python 13: its successor stands in;
* ``numpy.reshape`` lost the keyword ``newshape`` in NumPy 2.4;
* the projector opens an OpenGL context that only surface meshes use: it opens none.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import shutil
import sys
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

STAND_INS = {
    "open3d": (),
    "pyvista": (),
    "vtk": ("vtk.util", "vtk.util.numpy_support"),
    "torchvision": ("torchvision.datasets", "torchvision.datasets.utils"),
}
# DeepDRR reads its textures one voxel off along every storage axis; the rim keeps its last steps inside.
RIM, TEXTURE_SHIFT, AIR = 2, 1, -1000


class UnusableError(Exception):
    """DeepDRR cannot run here: which step failed (``stage``) and why."""

    def __init__(self, stage: str, reason: str) -> None:
        self.stage = stage
        super().__init__(reason)


class _Empty(types.ModuleType):
    """A module that has every attribute: an exception class, so that it can be imported, raised and subclassed."""

    __path__: list[str] = []  # noqa: RUF012 - makes it a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


class _NoDisplay:
    """Stands for pyrender's EGL platform: takes every call and does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_keywords: _NoDisplay()


def cuda_devices() -> int:
    """Number of CUDA devices that the driver shows.

    Raises:
        UnusableError: no driver, or one that does not start.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise UnusableError("machine", "this machine has no NVIDIA driver (libcuda.so.1)") from error
    count = ctypes.c_int()
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code or count.value < 1:
        raise UnusableError("machine", f"this machine has an NVIDIA driver but shows no CUDA device (code {code})")
    return count.value


def prepare_imports() -> None:
    """Put right what DeepDRR 1.2.2 stumbles over at import; nothing that works is replaced."""
    os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
    for name, parts in STAND_INS.items():
        try:
            importlib.import_module(name)
        except (ImportError, OSError, RuntimeError):  # absent, a system library missing, or not fitting torch
            for part in (name, *parts):
                sys.modules[part] = _Empty(part)
                parent, _, child = part.rpartition(".")
                if parent:
                    sys.modules[parent].__dict__[child] = sys.modules[part]
    try:
        importlib.import_module("cuda.cudart")
    except ImportError:
        package, runtime = importlib.import_module("cuda"), importlib.import_module("cuda.bindings.runtime")
        sys.modules["cuda.cudart"] = runtime
        package.__dict__["cudart"] = runtime
    if int(np.__version__.split(".")[0]) >= 2:
        plain = np.reshape

        def reshape(array: Any, shape: Any = None, *rest: Any, newshape: Any = None, **keywords: Any) -> Any:
            return plain(array, newshape if shape is None else shape, *rest, **keywords)

        np.__dict__["reshape"] = reshape


def load_deepdrr() -> Any:
    """The library, ready to project volumes.

    Raises:
        UnusableError: not installed, not importable, or no compiler for its kernels.
    """
    if importlib.util.find_spec("deepdrr") is None:
        raise UnusableError("environment", f"DeepDRR is not installed for {sys.executable}")
    if shutil.which("nvcc") is None:
        raise UnusableError("environment", "nvcc, which compiles DeepDRR's kernels, is not on the PATH (CUDA toolkit)")
    try:
        prepare_imports()
        deepdrr = importlib.import_module("deepdrr")
        projector = importlib.import_module("deepdrr.projector.projector")
    except Exception as error:  # any failure at import is the answer that was asked for
        raise UnusableError("environment", f"DeepDRR cannot be imported ({type(error).__name__}: {error})") from error
    projector.__dict__["egl"] = _NoDisplay()
    return deepdrr


def make_volume(deepdrr: Any, hu: Any, affine: Any) -> Any:
    """DeepDRR's volume with a rim of air, moved back by the rim and by the texture shift.

    Density comes from DeepDRR's own conversion; the three classes are its thresholds, given as labels, which spares
    its detour over files and GPU memory.
    """
    padded = np.pad(np.clip(hu, -1024, 3071), RIM, constant_values=AIR)
    density = np.empty(padded.shape, dtype=np.float32)
    for index in range(padded.shape[2]):  # its conversion works in float64
        density[..., index] = deepdrr.Volume._convert_hounsfield_to_density(padded[..., index].astype(np.float64))
    labels = np.ones(padded.shape, dtype=np.uint16)
    labels[padded <= -800] = 0
    labels[padded > 350] = 2
    names = {"air": 0, "soft tissue": 1, "bone": 2}
    moved = affine.copy()
    moved[:3, 3] -= affine[:3, :3] @ np.full(3, RIM + TEXTURE_SHIFT)
    return deepdrr.Volume(
        density,
        (names, labels),
        anatomical_from_IJK=deepdrr.geo.FrameTransform(moved),
        anatomical_coordinate_system="RAS",
    )


def beam_of(projector: Any) -> dict[str, list[Any]]:
    """The energies, shares and attenuation that a projector really uses."""
    material = importlib.import_module("deepdrr.material").Material
    spectrum = projector.spectrum_arr
    energies = (spectrum[:, 0] / 1000).astype(np.float64)
    columns = [
        [float(material.from_string(name).get_coefficients(np.float32(kev)).mu_over_rho) for kev in energies]
        for name in ("air", "bone", "soft tissue")
    ]
    share = spectrum[:, 1] / spectrum[:, 1].sum()
    return {"energies": energies.tolist(), "share": share.tolist(), "attenuation": np.array(columns).T.tolist()}


def project(folder: Path) -> dict[str, Any]:
    """Project what ``folder`` asks for and say what was used.

    Raises:
        UnusableError: DeepDRR, its compiler or a CUDA device is missing, or the projection fails.
    """
    devices = cuda_devices()
    deepdrr = load_deepdrr()
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    hu = np.load(folder / "hu.npy", mmap_mode="r", allow_pickle=False)
    affine, intrinsic, extrinsic = (np.array(request[key]) for key in ("affine", "intrinsic", "camera_from_world"))
    try:
        volume = make_volume(deepdrr, hu, affine)
        pixels = request["pixels"]
        camera = deepdrr.geo.CameraProjection(
            deepdrr.geo.CameraIntrinsicTransform(intrinsic, sensor_height=pixels, sensor_width=pixels), extrinsic
        )
        device = deepdrr.CameraProjectionDevice(camera, pixel_size=request["pixel_mm"])
        with deepdrr.Projector(
            volume, device=device, step=request["step_mm"], spectrum=request["spectrum"], neglog=False
        ) as projector:
            intensity = np.asarray(projector.project(camera), dtype=np.float32)
            beam = beam_of(projector)
        # The display that Projector(neglog=True) gives, without projecting twice.
        pictures = {"intensity": intensity, "neglog": np.asarray(deepdrr.utils.neglog(intensity[None])[0], np.float32)}
    except Exception as error:  # whatever the GPU stack throws is reported with its text
        raise UnusableError("projection", f"DeepDRR fails to project ({type(error).__name__}: {error})") from error
    for name, picture in pictures.items():
        np.save(folder / f"{name}.npy", picture, allow_pickle=False)
    return {
        "deepdrr": version("deepdrr"),
        "cupy": importlib.import_module("cupy").__version__,
        "numpy": np.__version__,
        "cuda_devices": devices,
        "beam": beam,
    }


def main() -> int:
    """Write ``result.json``; the exit code is 0 also when DeepDRR cannot be used, as that is an answer."""
    folder = Path(sys.argv[1])
    try:
        result: dict[str, Any] = {"ok": True, **project(folder)}
    except UnusableError as error:
        result = {"ok": False, "stage": error.stage, "reason": str(error)}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
