"""Picture files to pixels: what is in the bytes decides, not the name; what cannot be trusted is refused.

Only the formats below are tried, so that no byte of a source reaches a reader that runs other programs. Colour
profiles are not applied: the published programs do not, and no source says that its profiles are right. A JPEG that
somebody cut and gave a new end cannot be told from a whole one; its missing part is grey.
"""

from __future__ import annotations

import struct
import threading
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import Literal

from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes, convert

MAX_PIXELS = 80_000_000
MAX_FILE_BYTES = 1 << 30
GET_AGAIN = "Fetch the source again; if the file stays so, report it to the publisher"

SUFFIXES = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "TIFF": (".tif", ".tiff"),
    "BMP": (".bmp", ".dib"),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2", ".j2k", ".jpx", ".j2c"),
}
OTHER_CONTENT = (
    (b"version https://git-lfs", "is the pointer of a large file, not the file itself"),
    (b"<!doctype html", "is a web page, not a picture"),
    (b"<html", "is a web page, not a picture"),
    (b"<?xml", "is an XML file, not a picture"),
    (b"%pdf", "is a PDF, not a picture"),
    (b"pk\x03\x04", "is a ZIP archive, not a picture"),
    (b"\x1f\x8b", "is a gzip file, not a picture"),
)
# What Pillow's readers raise on damaged input, from their sources and from fuzzing.
READ_ERRORS = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_FILL = threading.Lock()


@dataclass(frozen=True)
class Decoded:
    """A decoded picture.

    ``format`` is what the bytes are (``JPEG``), ``stored_mode`` Pillow's mode before any conversion. ``notes`` are
    fixed phrases about what was unusual, so that they can be counted over a source.
    """

    image: Image.Image
    format: str
    stored_mode: str
    notes: tuple[str, ...]


@contextmanager
def _filling() -> Iterator[None]:
    """Let Pillow fill what a cut file lacks. Its switch is one for the process, hence the lock."""
    with _FILL:
        before = ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before


def _open(content: bytes, where: str | Path, max_pixels: int) -> Image.Image:
    """Read the header only; refuse what is no picture or declares too many pixels."""
    image = Image.open(BytesIO(content), formats=tuple(SUFFIXES))
    width, height = image.size
    if width * height > max_pixels:
        raise MedhebError(
            where,
            f"declares too many pixels: {width} x {height}, allowed are {max_pixels:,}",
            "Such a file can be an attack on memory; take it out if it is no real picture",
        )
    return image


def _load(content: bytes, where: str | Path, max_pixels: int, whole: bool) -> Image.Image:
    image = _open(content, where, max_pixels)
    if whole and image.format == "PNG":
        image.verify()  # the checksums of all chunks, which loading does not look at
        image = _open(content, where, max_pixels)
    image.load()
    return image


def _refusal(content: bytes, where: str | Path, error: BaseException) -> MedhebError:
    head = content[:32].lstrip().lower()
    for mark, fault in OTHER_CONTENT:
        if head.startswith(mark):
            return MedhebError(where, fault, GET_AGAIN)
    if content[128:132] == b"DICM":
        return MedhebError(where, "is a DICOM file, not a plain picture", "Give it where DICOM files are expected")
    if not content.strip(b"\x00"):
        return MedhebError(where, f"holds zero bytes only ({len(content)})", GET_AGAIN)
    if isinstance(error, Image.DecompressionBombError):
        fault = "declares far more pixels than any real picture has: a decompression bomb"
        return MedhebError(where, fault, "Take it out of the source, and report it to the publisher")
    if isinstance(error, UnidentifiedImageError):
        known = ", ".join(SUFFIXES)
        return MedhebError(where, "is not a picture, or its first bytes are damaged", f"Readable: {known}. {GET_AGAIN}")
    if "truncated" in str(error).lower():
        return MedhebError(where, "is a picture whose end is missing", GET_AGAIN)
    return MedhebError(where, f"is a damaged picture ({' '.join(str(error).split())[:80]})", GET_AGAIN)


def orientation_of(image: Image.Image) -> int:
    """EXIF orientation, 1 (as it lies) if there is none that can be read."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation)
    except READ_ERRORS:
        return 1
    return value if isinstance(value, int) and value in TURNS else 1


def _name_note(name: str, kind: str) -> list[str]:
    suffix = PurePath(name).suffix.lower()
    named = next((known for known, suffixes in SUFFIXES.items() if suffix in suffixes), None)
    return [] if named in {None, kind} else [f"{kind} under the name of a {named} file"]


def _decode(content: bytes, where: str | Path, max_pixels: int, truncated: str) -> tuple[Image.Image, list[str]]:
    try:
        return _load(content, where, max_pixels, whole=True), []
    except READ_ERRORS as error:
        refusal = _refusal(content, where, error)
        if truncated == "refuse":
            raise refusal from error
        try:
            with _filling():
                return _load(content, where, max_pixels, whole=False), ["damaged, missing part filled"]
        except READ_ERRORS:
            raise refusal from error


def decode_picture(
    content: bytes,
    where: str | Path,
    *,
    modes: Modes = Modes.EIGHT_BIT,
    orientation: Literal["apply", "keep"] = "apply",
    truncated: Literal["refuse", "fill"] = "refuse",
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
) -> Decoded:
    """Decode one picture.

    Args:
        content: the whole file.
        where: what a message names: the file, or ``file, row N``.
        modes: what becomes of unusual pixel formats.
        orientation: turn the picture as its EXIF tag says, or leave it as it lies (the published programs do). TIFF
            files are always turned, by Pillow itself.
        truncated: refuse a damaged picture, or let the decoder fill what is missing (one published program does).
        max_pixels: width times height at most, checked before any pixel is decoded.
        name: the name that the picture has, to note a wrong suffix; without it that of ``where`` if it is a path.

    Raises:
        MedhebError: empty, not a picture, too large, cut off or damaged, or a mode that ``modes`` cannot convert.
    """
    if not content:
        raise MedhebError(where, "is empty (0 bytes)", GET_AGAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's remarks on odd tags; what matters is raised or noted
        image, notes = _decode(content, where, max_pixels, truncated)
        kind, stored_mode = "JPEG" if image.format == "MPO" else str(image.format), image.mode
        notes += _name_note(name or (where.name if isinstance(where, Path) else ""), kind)
        if getattr(image, "is_animated", False):
            notes.append("several frames, the first is taken")
        turn = TURNS.get(orientation_of(image)) if orientation == "apply" else None
        if turn is not None:
            image = image.transpose(turn)
            notes.append("turned as its EXIF tag says")
        image, changes = convert(image, modes, where)
    return Decoded(image, kind, stored_mode, (*notes, *changes))


def read_picture(
    path: Path,
    *,
    modes: Modes = Modes.EIGHT_BIT,
    orientation: Literal["apply", "keep"] = "apply",
    truncated: Literal["refuse", "fill"] = "refuse",
    max_pixels: int = MAX_PIXELS,
) -> Decoded:
    """Decode a file; as :func:`decode_picture`.

    Raises:
        MedhebError: also for a file that is missing, cannot be read, or is larger than 1 GiB.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise MedhebError(path, f"has {size:,} bytes, too many for a picture", "Take it out of the source")
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MedhebError(path, "is missing", GET_AGAIN) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Mend the permissions or the disk") from error
    return decode_picture(
        content, path, modes=modes, orientation=orientation, truncated=truncated, max_pixels=max_pixels
    )
