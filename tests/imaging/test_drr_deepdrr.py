"""DeepDRR's process: what it is asked for, what it answers, and what is said where it cannot run.

The library itself needs a CUDA device. Its place is taken by a stand-in with the same interface, camera convention and
texture shift, which marches rays in plain NumPy. Tests marked ``cuda`` run the real one.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage
from typer.main import get_command
from typer.testing import CliRunner

from medheb import cli
from medheb.core.errors import BlockedError, MedhebError
from medheb.imaging.drr import deepdrr_process, deepdrr_runner, parity
from medheb.imaging.drr.app import drr_app
from medheb.imaging.drr.beam import load_beam
from medheb.imaging.drr.deepdrr_runner import DeepdrrError, project_deepdrr
from medheb.imaging.drr.normalise import neglog
from medheb.imaging.drr.parity import selftest, small_body, small_geometry
from medheb.imaging.drr.xray import XraySettings, project
from medheb.imaging.volume import Volume, canonical


def usable_here() -> str:
    """Why the real DeepDRR cannot be tested here; empty if it can."""
    try:
        selftest()
    except DeepdrrError as error:
        return error.fault
    return ""


def scripted(tmp_path: Path, body: str) -> str:
    """An interpreter that ignores the process and runs ``body`` with the folder as ``folder``."""
    script = tmp_path / "answer.py"
    script.write_text(f"import json, sys\nfrom pathlib import Path\nfolder = Path(sys.argv[1])\n{body}\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$3"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return str(python)


# --- the process with a stand-in for the library ---------------------------------------------------------------------


class StandIn(types.ModuleType):
    """As much of DeepDRR as the process uses."""

    class geo:  # noqa: N801 - the library's name
        @staticmethod
        def FrameTransform(matrix: np.ndarray) -> np.ndarray:  # noqa: N802 - the library's name
            return matrix

        @staticmethod
        def CameraIntrinsicTransform(  # noqa: N802 - the library's name
            matrix: np.ndarray, sensor_height: int, sensor_width: int
        ) -> tuple[np.ndarray, int]:
            assert sensor_height == sensor_width
            return matrix, sensor_height

        @staticmethod
        def CameraProjection(intrinsic: Any, extrinsic: np.ndarray) -> tuple[Any, np.ndarray]:  # noqa: N802
            return intrinsic, extrinsic

    class Volume:
        def __init__(
            self,
            data: np.ndarray,
            materials: Any,
            anatomical_from_IJK: np.ndarray,  # noqa: N803 - the library's name
            anatomical_coordinate_system: str,
        ) -> None:
            assert anatomical_coordinate_system == "RAS"
            self.density, (self.names, self.labels), self.affine = data, materials, anatomical_from_IJK

        @staticmethod
        def _convert_hounsfield_to_density(hu: np.ndarray) -> np.ndarray:
            return np.maximum(np.minimum(0.001029 * hu, 0.0005886 * hu) + 1.03, 0)

    class CameraProjectionDevice:
        def __init__(self, projection: Any, pixel_size: float) -> None:
            self.projection, self.pixel_size = projection, pixel_size

    class Projector:
        def __init__(self, volume: Any, device: Any, step: float, spectrum: str, neglog: bool) -> None:
            assert not neglog
            self.volume = volume
            self.beam = load_beam(spectrum)
            self.spectrum_arr = np.stack([self.beam.energies * 1000, self.beam.share * 5e4], axis=1)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_error: object) -> None:
            return None

        def project(self, camera: Any) -> np.ndarray:
            (intrinsic, pixels), extrinsic = camera
            grid = np.stack([*np.meshgrid(np.arange(pixels) + 0.5, np.arange(pixels) + 0.5), np.ones((pixels,) * 2)])
            camera_rays = np.einsum("ij,jhw->ihw", np.linalg.inv(intrinsic), grid)
            world_from_camera = np.linalg.inv(extrinsic)
            direction = np.einsum("ij,jhw->ihw", world_from_camera[:3, :3], camera_rays)
            direction /= np.linalg.norm(direction, axis=0)
            inverse = np.linalg.inv(self.volume.affine)
            start = inverse[:3, :3] @ world_from_camera[:3, 3] + inverse[:3, 3]
            heading = np.einsum("ij,jhw->ihw", inverse[:3, :3], direction)
            shape = np.array(self.volume.density.shape)
            axes, origin = self.volume.affine[:3, :3], self.volume.affine[:3, 3]
            away = np.linalg.norm(axes @ (shape / 2) + origin - world_from_camera[:3, 3])
            reach = np.linalg.norm(axes @ shape) / 2 + 10
            parts = [self.volume.density, *((self.volume.labels == n).astype(float) for n in (0, 2))]
            areal = np.zeros((3, pixels, pixels))
            for distance in np.arange(away - reach, away + reach, 0.5):
                place = start[:, None, None] + heading * distance
                inside = ((place >= -0.5) & (place <= shape[:, None, None] - 0.5)).all(axis=0)
                # Textures are read one voxel off along every axis.
                density, air, bone = (
                    ndimage.map_coordinates(part, place[:, inside] - 1, order=1, mode="nearest") for part in parts
                )
                areal[:, inside] += density * np.stack([air, bone, 1 - air - bone]) * 0.05
            return self.beam.intensity(areal.astype(np.float32))

    class utils:  # noqa: N801 - the library's name
        @staticmethod
        def neglog(images: np.ndarray) -> np.ndarray:
            return np.stack([neglog(image) for image in images])


class StandInMaterial:
    """The library's table of materials, filled with ours."""

    def __init__(self, column: int) -> None:
        self.column = column

    @classmethod
    def from_string(cls, name: str) -> StandInMaterial:
        return cls(("air", "bone", "soft tissue").index(name))

    def get_coefficients(self, kev: float) -> Any:
        beam = load_beam()
        value = np.exp(np.interp(np.log(kev), np.log(beam.energies), np.log(beam.attenuation[:, self.column])))
        return types.SimpleNamespace(mu_over_rho=value)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the process in this one, with the stand-in for the library and a CUDA device."""
    modules = {"deepdrr.material": types.ModuleType("m"), "cupy": types.ModuleType("cupy")}
    modules["deepdrr.material"].__dict__["Material"] = StandInMaterial
    modules["cupy"].__version__ = "0"  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(deepdrr_process, "cuda_devices", lambda: 1)
    monkeypatch.setattr(deepdrr_process, "load_deepdrr", lambda: StandIn("deepdrr"))
    monkeypatch.setattr(deepdrr_process, "version", lambda _name: "stand-in")

    def run(_command: list[str], **_keywords: object) -> types.SimpleNamespace:
        monkeypatch.setattr(sys, "argv", _command[2:])
        assert deepdrr_process.main() == 0
        return types.SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(deepdrr_runner.subprocess, "run", run)


@pytest.mark.usefixtures("stand_in")
def test_process_hands_over_the_right_matrices_and_undoes_the_shift() -> None:
    for found in selftest():
        assert found.within(parity.SELFTEST_MEAN_LEVELS), found


@pytest.mark.usefixtures("stand_in")
def test_parity_figures_of_a_given_volume() -> None:
    figures = parity.parity(small_body(40, 200), 24)
    assert [(spectrum, found.view) for spectrum, found in figures] == [
        (spectrum, view) for spectrum in ("90KV_AL40", "120KV_AL43") for view in ("AP", "PA")
    ]
    assert all(found.correlation > 0.99999 for _, found in figures)


@pytest.mark.usefixtures("stand_in")
def test_storage_order_does_not_matter_to_deepdrr() -> None:
    body = small_body(32)
    geometry = small_geometry("PA", 32)
    pictures = []
    for flips in ((1, 1, 1), (-1, -1, 1), (1, -1, -1)):
        flipped = body.affine @ np.diag([*flips, 1.0])
        for axis, flip in enumerate(flips):
            if flip < 0:
                flipped[:3, 3] += body.affine[:3, axis] * (body.shape[axis] - 1)
        stored = canonical(body.array[tuple(slice(None, None, flip) for flip in flips)], flipped, "flipped")
        pictures.append(project_deepdrr(stored, geometry, "90KV_AL40").neglog)
    assert max(np.abs(picture - pictures[0]).max() for picture in pictures) * 255 <= 0.5


@pytest.mark.usefixtures("stand_in")
def test_interface_with_deepdrr() -> None:
    settings = XraySettings(geometry=small_geometry("PA", 48))
    theirs, ours = (project(small_body(), projector, settings) for projector in ("deepdrr", "cone"))
    assert theirs.sidecar["projector"] == "deepdrr"
    assert theirs.sidecar["software"]["deepdrr"] == "stand-in"
    assert np.abs(theirs.picture.astype(int) - ours.picture).max() <= 2


@pytest.mark.usefixtures("stand_in")
def test_commands_print_figures_and_tell_when_they_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(drr_app, ["selftest"])
    assert done.exit_code == 0, done.output
    assert "DeepDRR is usable here: 2 views agree" in done.output
    monkeypatch.setattr(parity, "small_geometry", lambda view, _pixels: small_geometry(view, 24))
    monkeypatch.setattr(deepdrr_process, "TEXTURE_SHIFT", 0)
    monkeypatch.setattr(parity, "small_body", lambda _side: small_body())
    done = CliRunner().invoke(drr_app, ["parity", "--pixels", "16"])
    assert done.exit_code == 1
    assert "disagree" in done.output


# --- where it cannot run ---------------------------------------------------------------------------------------------


def test_no_interpreter() -> None:
    with pytest.raises(DeepdrrError, match=r"/nowhere/python does not start.*MEDHEB_DEEPDRR_PYTHON") as caught:
        selftest("/nowhere/python")
    assert caught.value.stage == "environment"
    assert isinstance(caught.value, BlockedError)


@pytest.mark.parametrize("stage", ["machine", "environment"])
def test_refusals_name_the_variable_and_the_setting(stage: str) -> None:
    error = DeepdrrError("X-ray projector deepdrr", stage, "why")
    assert "MEDHEB_DEEPDRR_PYTHON (in a run also the setting drr.python)" in error.remedy


def test_help_of_build_names_the_variable() -> None:
    """The text as it is written: a terminal breaks it anywhere."""
    option = next(option for option in get_command(cli.app).commands["build"].params if option.name == "projector")
    assert "MEDHEB_DEEPDRR_PYTHON" in option.help


def test_process_that_dies_and_one_that_says_why(tmp_path: Path) -> None:
    with pytest.raises(DeepdrrError, match=r"ended with code 7 \(boom\)") as caught:
        selftest(scripted(tmp_path, "print('boom', file=sys.stderr); sys.exit(7)"))
    assert caught.value.stage == "projection"
    with pytest.raises(
        DeepdrrError, match=r"is no python of DeepDRR's environment \(ModuleNot.*DEEPDRR_PYTHON"
    ) as caught:
        selftest(scripted(tmp_path, "import no_such_module"))
    assert caught.value.stage == "environment"
    answer = {"ok": False, "stage": "environment", "reason": "nvcc is missing"}
    with pytest.raises(DeepdrrError, match="nvcc is missing") as caught:
        selftest(scripted(tmp_path, f"(folder / 'result.json').write_text({json.dumps(answer)!r})"))
    assert caught.value.stage == "environment"


def test_real_process_without_device_or_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["process", str(tmp_path)])
    no_driver = deepdrr_process.UnusableError("machine", "no driver")
    monkeypatch.setattr(deepdrr_process, "cuda_devices", lambda: (_ for _ in ()).throw(no_driver))
    assert deepdrr_process.main() == 0
    assert json.loads((tmp_path / "result.json").read_text()) == {
        "ok": False,
        "stage": "machine",
        "reason": "no driver",
    }
    monkeypatch.setattr(deepdrr_process, "cuda_devices", lambda: 1)
    monkeypatch.setattr(deepdrr_process.importlib.util, "find_spec", lambda _name: None)
    deepdrr_process.main()
    assert "DeepDRR is not installed for" in json.loads((tmp_path / "result.json").read_text())["reason"]


def test_device_count_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        raise OSError("not found")

    monkeypatch.setattr(deepdrr_process.ctypes, "CDLL", missing)
    with pytest.raises(deepdrr_process.UnusableError, match=r"no NVIDIA driver \(libcuda\.so\.1\)"):
        deepdrr_process.cuda_devices()
    silent = types.SimpleNamespace(cuInit=lambda _flags: 100, cuDeviceGetCount=lambda _count: 0)
    monkeypatch.setattr(deepdrr_process.ctypes, "CDLL", lambda _name: silent)
    with pytest.raises(deepdrr_process.UnusableError, match=r"shows no CUDA device \(code 100\)"):
        deepdrr_process.cuda_devices()


def test_command_where_it_cannot_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(drr_app, ["selftest", "--python", "/nowhere/python"])
    assert done.exit_code == 3
    assert "DeepDRR is not usable here: /nowhere/python does not start" in done.output
    done = CliRunner().invoke(drr_app, ["parity", "--python", scripted(tmp_path, "sys.exit(9)")])
    assert done.exit_code == 1
    assert "ended with code 9" in done.output


def test_stand_ins_for_missing_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = [name for top, parts in deepdrr_process.STAND_INS.items() for name in (top, *parts)]
    for name in stand_ins:
        monkeypatch.setitem(sys.modules, name, None)  # makes its import fail
    cuda, runtime = types.ModuleType("cuda"), types.ModuleType("cuda.bindings.runtime")
    for name, module in {"cuda": cuda, "cuda.bindings.runtime": runtime}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "cuda.cudart", raising=False)
    monkeypatch.setattr(np, "reshape", np.reshape)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    try:
        deepdrr_process.prepare_imports()
        from pyvista import DeprecationError  # type: ignore[import-not-found]
        from torchvision.datasets.utils import download_url  # type: ignore[import-not-found]
        from vtk.util import numpy_support  # type: ignore[import-not-found]

        assert issubclass(DeprecationError, Exception)
        assert download_url is not None
        assert numpy_support.anything
        assert sys.modules["cuda.cudart"] is runtime
        assert np.reshape(np.arange(4), newshape=(2, 2)).shape == (2, 2)  # type: ignore[call-overload]
        assert np.reshape(np.arange(4), (2, 2)).shape == (2, 2)
    finally:
        sys.modules.pop("cuda.cudart", None)


# --- the one interface ----------------------------------------------------------------------------------------------


def test_interface() -> None:
    body = small_body()
    made = project(body, "cone", XraySettings(geometry=small_geometry("AP", 40), spectrum="120KV_AL43"))
    assert made.picture.shape == (40, 40)
    assert made.picture.std() > 0.05 * 255
    assert made.sidecar["projector"] == "cone"
    assert made.sidecar["geometry"]["view"] == "AP"
    assert made.sidecar["spectrum"]["name"] == "120KV_AL43"
    assert "SpekPy" in made.sidecar["spectrum"]["origin"]["spectra"]
    assert not made.sidecar["cut_at_side"]
    json.dumps(made.sidecar, allow_nan=False)
    assert made.logarithm is not None
    assert made.logarithm.shape == (40, 40)
    wide = project(body, "cone", XraySettings(geometry=small_geometry("AP").__class__(detector_mm=60, pixels=40)))
    assert wide.sidecar["cut_at_side"]
    release = project(body, "release")
    assert release.sidecar["projector"] == "release"
    # The lung is at the patient's right, so at the left of the picture.
    middle = release.picture[len(release.picture) // 2].astype(int)
    assert middle[len(middle) // 4] < middle[-len(middle) // 4]


def test_interface_refuses_unknown_words() -> None:
    with pytest.raises(MedhebError, match=r"'magic' is unknown\. Use one of: release, cone, deepdrr"):
        project(small_body(), "magic")  # type: ignore[arg-type]
    with pytest.raises(MedhebError, match=r"'70KV' is unknown.*120KV_AL43, 60KV_AL35, 90KV_AL40"):
        project(small_body(), "cone", XraySettings(spectrum="70KV"))
    with pytest.raises(MedhebError, match="unknown to DeepDRR"):
        project(small_body(), "deepdrr", XraySettings(spectrum="70KV"))
    with pytest.raises(MedhebError, match="unknown normalisation 'sharp'"):
        XraySettings(normalisation="sharp")  # type: ignore[arg-type]
    with pytest.raises(MedhebError, match="not in HU"):
        project(Volume(small_body().array + 1024, np.eye(4), "raw"), "deepdrr")


# --- the real thing -------------------------------------------------------------------------------------------------


@pytest.mark.cuda
def test_cone_agrees_with_the_real_deepdrr() -> None:
    if reason := usable_here():
        pytest.skip(f"DeepDRR cannot run here: {reason}")
    for spectrum, found in parity.parity(None, 256):
        assert found.within(), (spectrum, found)
