"""Reading images, in whatever process decodes them. Imports little, because worker processes start with it."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.models.base import ImageRef

READABLE_FORMATS = ("PNG", "JPEG")
MAX_PIXELS = 100_000_000
# What Pillow raises for a file that is cut off or damaged, found by damaging thousands.
DAMAGE = (
    OSError, EOFError, SyntaxError, ValueError, LookupError, struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
BUILD_AGAIN = "Run `medheb rebuild` for its source, then the workflow"


@dataclass(frozen=True)
class ImageReader:
    """Reads an image once, checks its bytes against the inventory, and decodes it.

    Args:
        benchmark: the folder that image paths start from.
    """

    benchmark: Path

    def __call__(self, ref: ImageRef) -> Image.Image:
        """The decoded image.

        Raises:
            MedhebError: missing, changed since it was built, too large, or no PNG or JPEG.
        """
        path = self.benchmark / ref.path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise MedhebError(path, f"cannot be read ({error.strerror})", BUILD_AGAIN) from error
        if sha256_bytes(content) != ref.sha256:
            raise MedhebError(path, "has changed since it was built", BUILD_AGAIN)
        return decoded(path, content)

    def size(self, ref: ImageRef) -> tuple[int, int]:
        """Width and height in pixels from the file's header.

        Raises:
            MedhebError: missing, or no PNG or JPEG.
        """
        path = self.benchmark / ref.path
        try:
            with Image.open(path, formats=READABLE_FORMATS) as image:
                return image.size
        except DAMAGE as error:
            raise MedhebError(path, f"is not a readable PNG or JPEG ({error})", BUILD_AGAIN) from error


def decoded(path: Path, content: bytes) -> Image.Image:
    """The picture in ``content``; ``path`` is named in errors.

    Raises:
        MedhebError: too large, or no PNG or JPEG.
    """
    try:
        image = Image.open(BytesIO(content), formats=READABLE_FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise MedhebError(path, f"has {image.width} x {image.height} pixels", f"Allowed: {MAX_PIXELS} in all")
        image.load()
    except DAMAGE as error:
        raise MedhebError(path, f"is not a readable PNG or JPEG ({error})", BUILD_AGAIN) from error
    return image
