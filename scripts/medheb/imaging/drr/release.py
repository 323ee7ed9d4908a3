"""The ``release`` projector: the closed form that the published CT -> X-ray script uses.

A parallel sum along the second stored axis: no divergent beam, spectrum, scatter or noise, and an attenuation about
eight times below real water. The min-max stretch at the end hides the scale. Use another projector for physics;
use this one to rebuild the published pictures.

The published script calls OpenCV for the morphology and for the resampling of unequal voxels. Here both are NumPy:
both are equal bit for bit to what its wheels do on x86-64 with AVX2. The published script itself moves with the CPU:
single pixels by one level, and the crop box of resampled pictures where its threshold is the background value.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.drr.body_mask import body_mask
from medheb.imaging.volume import Array, size_fault
from medheb.imaging.windows import Picture

HU_RANGE = (-1000, 1200)
WATER_PER_MM = 0.0025
STRETCH_PERCENTILES = (0.5, 99.5)
CROP_PERCENTILE = 3
CROP_PAD = 8
SPACING_TOLERANCE_MM = 0.01
# Ten times what the largest real scan gives; a voxel size that is wrong by a power of ten or more asks for any number.
MAX_PIXELS = 50_000_000
HEADER_REMEDY = "Get a copy with a whole header"

Float32 = npt.NDArray[np.float32]


def resize(picture: Float32, height: int, width: int) -> Float32:
    """Bilinear: pixel centres at half, edges repeated, no smoothing; equal bit for bit to OpenCV on x86-64.

    Columns first, then rows. Weights and differences are float32, their product is added with one rounding (a fused
    multiply-add there, float64 here).
    """
    for axis, length in ((1, width), (0, height)):
        stored = picture.shape[axis]
        position = (np.arange(length) + 0.5) * (stored / length) - 0.5
        left = np.floor(position).astype(np.int64)
        weight = (position - left).astype(np.float32).astype(np.float64)
        if axis == 0:
            weight = weight[:, None]
        first = picture.take(np.clip(left, 0, stored - 1), axis)
        step = picture.take(np.clip(left + 1, 0, stored - 1), axis) - first
        picture = (first + step * weight).astype(np.float32)
    return picture


def _crop(picture: Float32) -> Float32:
    """Box of pixels above the 3rd percentile; 8 more before it, 7 after it, as the published script has it."""
    bright = picture > np.percentile(picture, CROP_PERCENTILE)
    if not bright.any():
        return picture
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    return picture[
        max(0, rows[0] - CROP_PAD) : min(picture.shape[0], rows[-1] + CROP_PAD),
        max(0, columns[0] - CROP_PAD) : min(picture.shape[1], columns[-1] + CROP_PAD),
    ]


class ReleaseProjection:
    """Collects the slices of one volume, in any order and each once, and gives the published picture.

    Args:
        shape: voxels along the stored axes (X, Y, Z).
        zooms: voxel size in mm along the stored axes.
        where: file named in errors.

    Raises:
        MedhebError: a voxel size that is none.
    """

    def __init__(self, shape: tuple[int, int, int], zooms: tuple[float, float, float], where: str = "volume") -> None:
        if fault := size_fault(zooms):
            raise MedhebError(where, fault, HEADER_REMEDY)
        self.shape, self.zooms, self.where = shape, zooms, where
        self._integrals = np.zeros((shape[2], shape[0]), dtype=np.float32)
        self._seen = np.zeros(shape[2], dtype=bool)

    def add(self, index: int, plane: Array) -> None:
        """Add slice ``index`` of the last stored axis: HU, shape (X, Y), as stored and not turned.

        Raises:
            ValueError: another shape than declared, or a slice that was added before.
        """
        if plane.shape != self.shape[:2] or self._seen[index]:
            raise ValueError(f"slice {index}: shape {plane.shape}, or given twice")
        self._seen[index] = True
        # (Y, X): rows are added one after another, so that the sum has one fixed order of float32 additions.
        turned = plane.T if plane.dtype in (np.int16, np.int32) else plane.T.astype(np.float32)
        attenuation = np.clip(turned, *HU_RANGE).astype(np.float32, order="C")
        attenuation /= np.float32(1000)
        attenuation += np.float32(1)
        attenuation *= np.float32(WATER_PER_MM)
        np.maximum(attenuation, np.float32(0), out=attenuation)
        attenuation *= body_mask(turned)
        self._integrals[index] = attenuation.sum(axis=0, dtype=np.float32) * np.float32(self.zooms[1])

    def picture(self) -> Picture:
        """The radiograph: higher slices on top, bone bright, cropped to the body; uint8, about (Z, X).

        A volume of one value everywhere, such as air, becomes all white, as published.

        Raises:
            MedhebError: voxels that are not numbers, or of so unequal size that no picture of them can be held.
            ValueError: a slice is missing.
        """
        if not self._seen.all():
            raise ValueError(f"{int((~self._seen).sum())} of {self.shape[2]} slices are missing")
        if not np.isfinite(self._integrals).all():
            raise MedhebError(self.where, "holds voxels that are not numbers", "Get an undamaged copy")
        transmission = np.exp(-self._integrals.T)
        # The stretch runs in float64: in float32 it depends on the NumPy version in the last bit.
        low, high = (float(value) for value in np.percentile(transmission, STRETCH_PERCENTILES))
        stretched = (np.clip(transmission.astype(np.float64), low, high) - low) / (high - low + 1e-8)
        picture: Float32 = np.clip(1.0 - stretched, 0.0, 1.0).astype(np.float32).T[::-1]
        column_mm, row_mm = self.zooms[0], self.zooms[2]
        if abs(row_mm - column_mm) > SPACING_TOLERANCE_MM:
            finest = min(row_mm, column_mm)
            height, width = (
                round(length * (mm / finest)) for length, mm in zip(picture.shape, (row_mm, column_mm), strict=True)
            )
            if height * width > MAX_PIXELS:
                fault = f"asks for an X-ray of {width} x {height} pixels: its voxels are {column_mm:g} x {row_mm:g} mm"
                raise MedhebError(self.where, fault, HEADER_REMEDY)
            picture = resize(picture, height, width)
        return (_crop(picture) * np.float32(255)).astype(np.uint8)


def project(array: Array, spacing: tuple[float, float, float], where: str = "volume") -> Picture:
    """The published picture of a whole volume.

    Args:
        array: HU, shape (X, Y, Z); summed along axis 1. The closed form itself does not turn anything.
        spacing: voxel size in mm along the three axes.
        where: file named in errors.
    """
    x, y, z = array.shape
    projection = ReleaseProjection((x, y, z), spacing, where)
    for index in range(z):
        projection.add(index, array[:, :, index])
    return projection.picture()
