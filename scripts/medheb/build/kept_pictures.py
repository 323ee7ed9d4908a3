"""Pictures that are kept as the source stores them: checked by decoding, never written anew, so names and bytes stay.

What is unusual about one (CMYK, palette, 16 bit, an EXIF turn, a wrong suffix) is a fact of its row. Readers of the
benchmark convert as they need; a picture under a name of the released task files must not change its format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from medheb.build.inventory import Fact
from medheb.build.output import Known, Output
from medheb.build.rights import is_file, is_there
from medheb.build.unusual import unusual
from medheb.core.digests import picture_digests, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import Decoded, decode_picture, orientation_of

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp"})
ORDINARY = ("L", "RGB")
EXTENSION = {"JPEG": "jpg", "PNG": "png", "TIFF": "tif", "BMP": "bmp", "GIF": "gif", "WEBP": "webp"}


def facts_of(decoded: Decoded) -> dict[str, Fact]:
    """Size, stored mode, format, what is unusual (fixed phrases joined by ``; ``), and that nothing was changed."""
    width, height = decoded.image.size
    return {
        "width": width,
        "height": height,
        "mode": decoded.stored_mode,
        "format": decoded.format,
        "unusual": unusual(decoded),
        "transform": "bytes as stored",
    }


def check(content: bytes, where: str | Path, name: str) -> Decoded:
    """Decode a picture only to know that it is one.

    Raises:
        MedhebError: it is not, or it is damaged.
    """
    decoded = decode_picture(content, where, modes=Modes.AS_STORED, orientation="keep", name=name)
    notes = list(decoded.notes)
    if decoded.stored_mode not in ORDINARY:
        notes.append(f"stored as {decoded.stored_mode}")
    elif decoded.image.has_transparency_data:
        notes.append("one colour is transparent")
    if orientation_of(decoded.image) != 1:
        notes.append("an EXIF tag asks to turn it")
    return replace(decoded, notes=tuple(notes))


@dataclass(frozen=True)
class Kept:
    """A picture file, read and decoded once, with its facts. ``known.content`` tells pixels apart."""

    path: Path
    known: Known
    facts: dict[str, Fact]


def read_kept(original: Path) -> Kept:
    """Read a picture file that stays as it is.

    Raises:
        MedhebError: missing, damaged, or not a picture.
    """
    if is_there(original) and not is_file(original):
        raise MedhebError(original, "is no file: a folder, pipe or device", "Take it out of the source")
    try:
        content = original.read_bytes()
    except OSError as error:
        fault = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
        raise MedhebError(original, fault, "Fetch the source again, or mend the permissions") from error
    decoded = check(content, original, original.name)
    image = decoded.image
    digest, grey = picture_digests(image)
    return Kept(original, Known(len(content), sha256_bytes(content), digest, grey), facts_of(decoded))


def keep_file(out: Output, path: str, original: Path | Kept, **facts: Fact) -> None:
    """Take over a picture file unchanged, with its facts.

    Raises:
        MedhebError: missing, damaged, or not a picture.
    """
    kept = original if isinstance(original, Kept) else read_kept(original)
    out.known_file(path, kept.path, kept.known, kept.facts | facts)


def pictures_below(folder: Path) -> Iterator[Path]:
    """Picture files below a folder by name, sorted; hidden files and what archives of Macs add are left out.

    Raises:
        MedhebError: the folder cannot be listed.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise MedhebError(folder, f"cannot be listed ({error.strerror})", "Mend the permissions") from error
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        if entry.is_dir():
            yield from pictures_below(Path(entry.path))
        elif Path(entry.name).suffix.lower() in SUFFIXES:
            yield Path(entry.path)
