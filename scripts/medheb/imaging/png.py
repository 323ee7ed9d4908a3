"""PNG files with fixed settings, and the digests of what was written.

Own encoder: Pillow spends some 30 ms on a 512 x 512 slice at its default level and 9 ms at its fastest. One fixed
row filter and ISA-L's deflate take 1 ms for a file of about the same size, with the same pixels.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from isal import isal_zlib
from PIL import Image

from medheb.core.digests import grey_digest, picture_digests, samples_digest, sha256_bytes
from medheb.core.files import write_bytes
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEVEL = 1
FILTER_UP = 2
PILLOW_LEVEL = 1
# Pillow mode: bits per sample and PNG colour type.
SAMPLES = {"L": (8, 0), "LA": (8, 4), "RGB": (8, 2), "RGBA": (8, 6), "I;16": (16, 0)}
# Types and numbers of channels of arrays, and the mode that Pillow has for them.
ARRAYS = {
    (np.dtype(np.uint8), 1): "L",
    (np.dtype(np.uint8), 2): "LA",
    (np.dtype(np.uint8), 3): "RGB",
    (np.dtype(np.uint8), 4): "RGBA",
    (np.dtype(np.uint16), 1): "I;16",
}
# Palette numbers and packed bits: rare, and Pillow knows the chunks that go with them.
OTHERS = ("1", "P")
MAX_16_BIT = 65535


@dataclass(frozen=True)
class PngDigests:
    """L1 (file bytes, which depend on the compressor), L2 (pixels), and what the pixels are, as Pillow names it.

    ``grey`` is the digest of an RGB picture without colour as a grey one.
    """

    sha256: str
    content: str
    bytes: int
    mode: str
    width: int
    height: int
    grey: str | None = None


def _chunk(kind: bytes, content: bytes) -> tuple[bytes, ...]:
    check = zlib.crc32(content, zlib.crc32(kind))
    return struct.pack(">I", len(content)), kind, content, struct.pack(">I", check)


def _encode_samples(mode: str, width: int, height: int, samples: bytes) -> bytes:
    """PNG of a picture with true samples, without metadata: every row as its difference to the row above."""
    bits, colour = SAMPLES[mode]
    rows = np.frombuffer(samples, dtype=np.uint8).reshape(height, -1)
    if bits == 16:
        rows = rows.reshape(height, width, 2)[:, :, ::-1].reshape(height, -1)
    lines = np.empty((height, rows.shape[1] + 1), dtype=np.uint8)
    lines[:, 0] = FILTER_UP
    lines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=lines[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    data = isal_zlib.compress(lines.data, LEVEL)
    return b"".join((SIGNATURE, *_chunk(b"IHDR", header), *_chunk(b"IDAT", data), *_chunk(b"IEND", b"")))


def _encode_others(image: Image.Image) -> bytes:
    stream = BytesIO()
    image.save(stream, format="PNG", compress_level=PILLOW_LEVEL, icc_profile=None)
    return stream.getvalue()


def _samples(array: Array) -> tuple[str, int, int, bytes]:
    """Mode, width, height and samples of an array, as Pillow would give them.

    Raises:
        ValueError: another type or number of axes, or empty.
    """
    kind = (array.dtype, array.shape[2] if array.ndim == 3 else 1)
    if array.ndim not in (2, 3) or array.size == 0 or kind not in ARRAYS or (array.ndim == 3 and kind[1] == 1):
        raise ValueError(
            f"a picture is uint8 (H, W) or (H, W, 2 to 4), or uint16 (H, W); not {array.dtype} {array.shape}"
        )
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return ARRAYS[kind], array.shape[1], array.shape[0], little.tobytes()


def _as_image(picture: Image.Image) -> Image.Image:
    """The picture as one of the modes that a PNG keeps.

    Raises:
        ValueError: another mode, or empty.
    """
    if picture.mode == "I":
        samples = np.asarray(picture)
        if samples.size and not 0 <= samples.min() <= samples.max() <= MAX_16_BIT:
            raise ValueError(f"samples from {samples.min()} to {samples.max()}; a PNG holds 0 to {MAX_16_BIT}")
        picture = Image.fromarray(samples.astype(np.uint16))
    if picture.mode not in (*SAMPLES, *OTHERS) or min(picture.size) < 1:
        raise ValueError(f"no PNG of mode {picture.mode}, size {picture.size}; modes: {', '.join((*SAMPLES, *OTHERS))}")
    return picture


def encode_picture(picture: Image.Image | Array) -> tuple[bytes, PngDigests]:
    """Encode a picture as PNG without metadata, in its own mode.

    Args:
        picture: Pillow image of mode L, LA, RGB, RGBA, 1, P, I;16 or I (samples of 16 bits), or an
            array: uint8 (H, W), (H, W, 2), (H, W, 3) or (H, W, 4), or uint16 (H, W).

    Returns:
        File content, and its digests taken of what is in memory: nothing is decoded again.

    Raises:
        ValueError: no such picture.
    """
    if isinstance(picture, np.ndarray):
        mode, width, height, samples = _samples(picture)
        content = _encode_samples(mode, width, height, samples)
        digest, grey = samples_digest(mode, width, height, samples), grey_digest(mode, width, height, samples)
    else:
        image = _as_image(picture)
        mode, (width, height) = image.mode, image.size
        content = _encode_samples(mode, width, height, image.tobytes()) if mode in SAMPLES else _encode_others(image)
        digest, grey = picture_digests(image)
    return content, PngDigests(sha256_bytes(content), digest, len(content), mode, width, height, grey)


def write_picture(path: Path, picture: Image.Image | Array) -> PngDigests:
    """Write a picture as PNG atomically and return the digests of the file; see :func:`encode_picture`."""
    content, digests = encode_picture(picture)
    write_bytes(path, content)
    return digests


def _check_grey(picture: Picture) -> None:
    if picture.dtype != np.uint8 or picture.ndim != 2 or picture.size == 0:
        raise ValueError(f"a grey picture is uint8 (H, W), not {picture.dtype} {picture.shape}")


def encode_png(picture: Picture) -> bytes:
    """Encode a grey picture (H, W) as PNG, mode L.

    Raises:
        ValueError: not uint8, not two-dimensional, or empty.
    """
    _check_grey(picture)
    return encode_picture(picture)[0]


def write_png(path: Path, picture: Picture) -> PngDigests:
    """Write a grey picture (H, W) atomically and return the digests of what was written."""
    _check_grey(picture)
    return write_picture(path, picture)
