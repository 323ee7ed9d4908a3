"""The ``release`` projector: the closed form that the published CT -> X-ray script uses.

A parallel sum along the front-back axis: no divergent beam, spectrum, scatter or noise, and an attenuation about
eight times below real water. The min-max stretch at the end hides the scale. Use another projector for physics;
use this one to rebuild the published pictures.

Difference to the published script: it calls OpenCV for the morphology and for the resampling of unequal voxels;
here both are SciPy. The morphology is equal bit for bit (binary masks, border rules of OpenCV). The resampling
follows the same half-pixel bilinear rule, in another order of additions: single pixels may differ by one level,
and the crop box of resampled pictures may differ where its threshold is the background value.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture

HU_RANGE = (-1000.0, 1200.0)
WATER_PER_MM = 0.0025
BODY_HU = -700
KERNEL = np.ones((5, 5), dtype=bool)
STRETCH_PERCENTILES = (0.5, 99.5)
CROP_PERCENTILE = 3
CROP_PAD = 8
SPACING_TOLERANCE_MM = 0.01

Float32 = npt.NDArray[np.float32]


def _body_mask(plane: Array) -> npt.NDArray[np.bool_]:
    """Closed, then opened body mask of one axial plane; nothing beyond the border counts for or against."""
    mask = plane > BODY_HU
    for step in ("dilate", "erode", "erode", "dilate"):
        if step == "dilate":
            mask = ndimage.binary_dilation(mask, KERNEL, border_value=0)
        else:
            mask = ndimage.binary_erosion(mask, KERNEL, border_value=1)
    return mask


def _line_integrals(array: Array, row_mm: float) -> Float32:
    """Attenuation summed along axis 1, plane by plane. (X, Y, Z) -> (X, Z)."""
    columns = []
    for index in range(array.shape[2]):
        plane = array[:, :, index]
        attenuation = np.clip(plane.astype(np.float32), *HU_RANGE) / np.float32(1000) + np.float32(1)
        attenuation = np.maximum(attenuation * np.float32(WATER_PER_MM), np.float32(0)) * _body_mask(plane)
        columns.append(attenuation.sum(axis=1, dtype=np.float32) * np.float32(row_mm))
    return np.stack(columns, axis=1)


def _resize(picture: Float32, height: int, width: int) -> Float32:
    """Bilinear, pixel centres at half, edges repeated, no smoothing."""
    rows = (np.arange(height) + 0.5) * (picture.shape[0] / height) - 0.5
    columns = (np.arange(width) + 0.5) * (picture.shape[1] / width) - 0.5
    grid = np.meshgrid(rows, columns, indexing="ij")
    resized: Float32 = ndimage.map_coordinates(picture, grid, order=1, mode="nearest").astype(np.float32)
    return resized


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


def project(array: Array, spacing: tuple[float, float, float]) -> Picture:
    """Radiograph of a CT volume along axis 1, higher axis-2 indices on top, bone bright.

    Args:
        array: HU, shape (X, Y, Z). Give x from the patient's right to left for the usual display; the closed form
            itself does not turn anything.
        spacing: voxel size in mm along the three axes.

    Returns:
        uint8, about (Z, X), cropped to the body.
    """
    integrals = _line_integrals(array, spacing[1])
    transmission = np.exp(-integrals)
    # The stretch runs in float64: in float32 it depends on the NumPy version in the last bit.
    low, high = (float(value) for value in np.percentile(transmission, STRETCH_PERCENTILES))
    stretched = (np.clip(transmission.astype(np.float64), low, high) - low) / (high - low + 1e-8)
    picture: Float32 = np.clip(1.0 - stretched, 0.0, 1.0).astype(np.float32).T[::-1]
    if abs(spacing[2] - spacing[0]) > SPACING_TOLERANCE_MM:
        finest = min(spacing[2], spacing[0])
        picture = _resize(
            picture, round(picture.shape[0] * (spacing[2] / finest)), round(picture.shape[1] * (spacing[0] / finest))
        )
    return (_crop(picture) * np.float32(255)).astype(np.uint8)
