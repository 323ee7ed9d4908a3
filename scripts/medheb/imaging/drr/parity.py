"""``cone`` against DeepDRR: the self-test that says whether DeepDRR is usable, and the figures of their agreement."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from medheb.imaging.drr.beam import DEFAULT_SPECTRUM
from medheb.imaging.drr.cone import areal_density
from medheb.imaging.drr.deepdrr_runner import DeepdrrError, project_deepdrr
from medheb.imaging.drr.geometry import Geometry, View
from medheb.imaging.drr.normalise import neglog
from medheb.imaging.drr.preparation import Float32
from medheb.imaging.volume import Volume

MAX_LEVELS, MEAN_LEVELS = 2.0, 0.1  # of 255
# The self-test's voxels are 5 mm: cone goes from plane to plane, DeepDRR in between as well.
SELFTEST_MEAN_LEVELS = 0.3
VIEWS: tuple[View, ...] = ("AP", "PA")


@dataclass(frozen=True)
class Agreement:
    """Two pictures of one view, compared. Levels are those of an 8-bit picture."""

    view: View
    max_levels: float
    mean_levels: float
    correlation: float
    p99_log_signal: float

    def within(self, mean_levels: float = MEAN_LEVELS) -> bool:
        """Whether the two agree within 2 levels everywhere and within ``mean_levels`` in the mean."""
        return self.max_levels <= MAX_LEVELS and self.mean_levels <= mean_levels


def compare(view: View, ours: Float32, theirs: Float32, our_signal: Float32, their_signal: Float32) -> Agreement:
    """Agreement of two pictures (0 to 1) and of the signals (keV) that they show, all (H, W)."""
    difference = np.abs(ours.astype(np.float64) - theirs) * 255
    logs = np.abs(np.log(our_signal.astype(np.float64)) - np.log(their_signal.astype(np.float64)))
    correlation = float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1])
    return Agreement(
        view, float(difference.max()), float(difference.mean()), correlation, float(np.percentile(logs, 99))
    )


def small_body(side: int = 32, extent_mm: float = 160.0) -> Volume:
    """A cube of air with a body of soft tissue, a lung on its right, and bone: a spine and a ball at upper left."""
    step = extent_mm / side
    place = (np.arange(side) - (side - 1) / 2) * step / extent_mm  # -0.5 to 0.5, RAS
    x, y, z = np.meshgrid(place, place, place, indexing="ij")
    hu = np.full((side,) * 3, -1000, dtype=np.int16)
    hu[(x / 0.42) ** 2 + (y / 0.3) ** 2 <= 1] = 40
    hu[((x - 0.2) / 0.14) ** 2 + (y / 0.18) ** 2 + (z / 0.3) ** 2 <= 1] = -850
    hu[(x / 0.07) ** 2 + ((y + 0.2) / 0.07) ** 2 <= 1] = 600
    hu[(x + 0.22) ** 2 + y**2 + (z - 0.28) ** 2 <= 0.08**2] = 900
    affine = np.diag([step, step, step, 1.0])
    affine[:3, 3] = -(side - 1) / 2 * step
    return Volume(hu, affine, f"self-test volume of {side} voxels a side")


def small_geometry(view: View, pixels: int = 96) -> Geometry:
    """The default stand with a detector as small as :func:`small_body`."""
    return Geometry(view=view, detector_mm=220.0, pixels=pixels)


def agreement(volume: Volume, geometry: Geometry, python: str | None, spectrum: str = DEFAULT_SPECTRUM) -> Agreement:
    """Project with both, on DeepDRR's own spectrum and attenuation, and compare DeepDRR's display of both.

    Raises:
        DeepdrrError: DeepDRR does not run here.
        MedhebError: the volume is no CT in HU, or sheared.
    """
    theirs = project_deepdrr(volume, geometry, spectrum, python)
    signal = theirs.beam.intensity(areal_density(volume, geometry))
    return compare(geometry.view, neglog(signal), theirs.neglog, signal, theirs.intensity)


def selftest(python: str | None = None) -> list[Agreement]:
    """Both views of a volume of 32 voxels a side.

    Raises:
        DeepdrrError: with the reason.
    """
    return [agreement(small_body(), small_geometry(view), python) for view in VIEWS]


def require_usable(python: str | None = None) -> None:
    """Refuse DeepDRR where its self-test fails, before hours of work that need it.

    Raises:
        DeepdrrError: why it is not usable here.
    """
    where = "X-ray projector deepdrr"
    try:
        found = selftest(python)
    except DeepdrrError as error:
        raise DeepdrrError(where, error.stage, error.fault) from error
    if not all(view.within(SELFTEST_MEAN_LEVELS) for view in found):
        raise DeepdrrError(where, "projection", "its self-test shows other pictures than those of cone")


def parity(volume: Volume | None, pixels: int, python: str | None = None) -> list[tuple[str, Agreement]]:
    """Both views and all spectra, of ``volume`` or of a body of 128 voxels a side.

    Raises:
        DeepdrrError: DeepDRR does not run here.
        MedhebError: the volume is no CT in HU, or sheared.
    """
    figures = []
    for spectrum, view in product((DEFAULT_SPECTRUM, "120KV_AL43"), VIEWS):
        geometry = small_geometry(view, pixels) if volume is None else Geometry(view=view, pixels=pixels)
        figures.append((spectrum, agreement(volume or small_body(128), geometry, python, spectrum)))
    return figures
