"""From the signal behind the patient to a picture, bone bright."""

from __future__ import annotations

from typing import Literal

import numpy as np

from medheb.imaging.drr.preparation import Float32
from medheb.imaging.windows import Picture

Normalisation = Literal["body", "deepdrr"]
NORMALISATIONS: tuple[Normalisation, ...] = ("body", "deepdrr")

BODY_ATTENUATION = 0.05
BODY_PERCENTILES = (1.0, 99.5)
NEGLOG_OFFSET = 0.01


def attenuation(intensity: Float32, unattenuated: float) -> Float32:
    """-ln(I / I0) of a signal (H, W); 0 where nothing is in the way."""
    ratio: Float32 = intensity / np.float32(unattenuated)
    return -np.log(np.maximum(ratio, np.finfo(np.float32).tiny))


def body_range(logarithm: Float32) -> tuple[float, float]:
    """Black and white of a picture: percentiles over the body only, so that air around it does not count.

    Without a body it is 0 to 1.
    """
    body = logarithm[logarithm > BODY_ATTENUATION]
    if body.size == 0:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(body.astype(np.float64), BODY_PERCENTILES))
    return (low, high) if high > low else (0.0, high)


def neglog(intensity: Float32) -> Float32:
    """DeepDRR's own display of a signal (H, W), for comparison with it: 0 to 1 over the whole picture.

    The logarithm has the picture's smallest value and 0.01 added; a constant picture becomes 0.
    """
    logarithm = -np.log(intensity + intensity.min() + np.float32(NEGLOG_OFFSET))
    low, high = logarithm.min(), logarithm.max()
    if not high > low:
        return np.zeros_like(logarithm)
    stretched: Float32 = (logarithm - low) / (high - low)
    return stretched


def picture(intensity: Float32, unattenuated: float, normalisation: Normalisation) -> Picture:
    """uint8 (H, W), rounded to the nearest level."""
    if normalisation == "deepdrr":
        scaled = neglog(intensity)
    else:
        logarithm = attenuation(intensity, unattenuated)
        low, high = body_range(logarithm)
        scaled = np.clip((logarithm - np.float32(low)) / np.float32(high - low), 0, 1)
    levels: Picture = np.rint(scaled * np.float32(255)).astype(np.uint8)
    return levels
