"""A checkpoint's own image processor, asked for the pixels before they are normalised: a quarter of the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.errors import MedhebError


def processed_pixels(processor: Any, image: Image.Image) -> NDArray[np.uint8]:
    """uint8 [3, height, width] after resizing and cropping as the checkpoint says; grey and other modes become RGB.

    Raises:
        MedhebError: the processor gives something that is no picture of 8 bits.
    """
    values = processor(
        images=image.convert("RGB"), do_rescale=False, do_normalize=False, return_tensors="np", do_convert_rgb=False
    )["pixel_values"][0]
    rounded = np.rint(values)
    if values.ndim != 3 or values.shape[0] != 3 or np.abs(values - rounded).max() > 0 or not _in_range(rounded):
        raise MedhebError(
            type(processor).__name__,
            "does not give pictures of 8 bits",
            "Report the model: it needs an adapter of its own",
        )
    return np.ascontiguousarray(rounded.astype(np.uint8))


def _in_range(values: NDArray[Any]) -> bool:
    return bool(values.min() >= 0 and values.max() <= 255)
