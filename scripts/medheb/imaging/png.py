"""PNG files with fixed settings, and the digests of what was written."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.core.digests import pixel_digest, sha256_bytes
from medheb.core.files import write_bytes
from medheb.imaging.windows import Picture

COMPRESS_LEVEL = 6


@dataclass(frozen=True)
class PngDigests:
    """L1 (file bytes, which depend on the host's zlib) and L2 (pixels)."""

    sha256: str
    content: str


def encode_png(picture: Picture) -> bytes:
    """Encode a grey picture (H, W) as PNG, mode L, no metadata.

    Raises:
        ValueError: not uint8, not two-dimensional, or empty.
    """
    if picture.dtype != np.uint8 or picture.ndim != 2 or picture.size == 0:
        raise ValueError(f"a grey picture is uint8 (H, W), not {picture.dtype} {picture.shape}")
    stream = BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(stream, format="PNG", compress_level=COMPRESS_LEVEL)
    return stream.getvalue()


def write_png(path: Path, picture: Picture) -> PngDigests:
    """Write a grey picture (H, W) atomically and return the digests of what was written."""
    content = encode_png(picture)
    write_bytes(path, content)
    return PngDigests(sha256_bytes(content), pixel_digest(content))
