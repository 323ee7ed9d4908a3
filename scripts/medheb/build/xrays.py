"""X-rays of the region sources, from DICOM or from a picture file, and their crops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from medheb.build.closed_tables import MEND_ROW
from medheb.build.inventory import Fact
from medheb.build.output import Known, Output
from medheb.build.unusual import FACT, done
from medheb.core.digests import picture_digests, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.imaging.boxes import LEAST_SIDE, PixelBox, cut, grow, merge, not_negative, read_corners, sound_box
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import decode_picture
from medheb.imaging.png import OTHERS, SAMPLES
from medheb.imaging.radiograph_dicom import facts_of, read_radiograph

DICOM_SUFFIXES = frozenset({".dicom", ".dcm", ".dic"})


@dataclass(frozen=True)
class Xray:
    """A picture to cut crops from.

    Args:
        image: its pixels.
        facts: what the inventory keeps of a DICOM file; nothing of a picture file.
        original: the file, if the picture is exactly its content.
        notes: fixed phrases about what was unusual.
    """

    image: Image.Image
    facts: dict[str, Fact]
    original: Path | None
    notes: tuple[str, ...]


def read_xray(path: Path, release: bool) -> Xray:
    """Read a DICOM file (by its suffix) or a picture.

    Raises:
        MedhebError: missing, unreadable, or no picture.
    """
    if path.suffix.lower() in DICOM_SUFFIXES:
        if not path.is_file():
            raise MedhebError(path, "is missing", "Verify the copy again")
        radiograph = read_radiograph(path)
        return Xray(Image.fromarray(radiograph.picture), dict(facts_of(radiograph)), None, radiograph.notes)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MedhebError(path, "is missing", "Verify the copy again") from error
    # The published programs take pixels as they lie in the file.
    modes = Modes.AS_STORED if release else Modes.EIGHT_BIT
    decoded = decode_picture(content, path, modes=modes, orientation="keep" if release else "apply")
    same = decoded.format == "PNG" and decoded.image.mode == decoded.stored_mode
    turned = any("turned" in note for note in decoded.notes)
    return Xray(decoded.image, {}, path if same and not turned else None, decoded.notes)


def _check_mode(image: Image.Image, path: str) -> None:
    if image.mode not in {*SAMPLES, *OTHERS}:
        fault = f"comes from a picture of mode {image.mode}, which PNG cannot hold"
        raise MedhebError(path, fault, "Convert the picture to 8 bit, or build with the corrected protocol")


def write_xray(out: Output, path: str, xray: Xray, **facts: Fact) -> None:
    """Write a picture as PNG, or take over the file that it is the content of."""
    image = xray.image
    how = "bytes as stored" if xray.original else "rendered from DICOM" if xray.facts else done(xray)
    size: dict[str, Fact] = {"mode": image.mode, "width": image.width, "height": image.height}
    odd: dict[str, Fact] = {FACT: "; ".join(xray.notes) or None}
    everything: dict[str, Fact] = {**xray.facts, **odd, "transform": how, **facts, **size}
    if xray.original is not None:
        content = xray.original.read_bytes()
        digest, grey = picture_digests(image)
        out.known_file(path, xray.original, Known(len(content), sha256_bytes(content), digest, grey), everything)
    else:
        _check_mode(image, path)
        out.picture(path, image, **everything)


@dataclass(frozen=True)
class ReaderBox:
    """A box as a table has it: where it stands, and its corners x1, y1, x2, y2."""

    where: str
    corners: tuple[object, ...]


def united_boxes(boxes: Sequence[ReaderBox], size: tuple[int, int], release: bool, out: Output) -> list[PixelBox]:
    """Boxes of several readers for one finding in one picture, those that mean the same place united.

    A row that is no box is refused. ``corrected`` also orders the corners, cuts boxes at the border, and refuses
    those without area or outside of the picture (the published programs cut something else for them).

    Args:
        boxes: in the order of the table.
        size: (width, height) of the picture.
        release: the published rules.
        out: receives the refusals.
    """
    found = []
    for box in boxes:
        try:
            read = read_corners(box.corners, box.where)
            found.append(not_negative(read) if release else sound_box(read, size, box.where))
        except MedhebError as error:
            out.refuse(MedhebError(error.where, error.fault, MEND_ROW))
    return merge(found, published_order=release)


def write_crop(out: Output, path: str, image: Image.Image, box: PixelBox, **facts: Fact) -> None:
    """Write a box grown to at least 28 pixels a side; see :func:`medheb.imaging.boxes.grow`.

    Raises:
        MedhebError: a picture of a mode that PNG cannot hold, such as CMYK as the published programs take it.
    """
    _check_mode(image, path)
    grown = grow(box, image.size)
    crop = cut(image, grown)
    everything: dict[str, Fact] = {
        **facts,
        "kind": "crop",
        "box": " ".join(map(str, grown)),
        "transform": f"box cut out, at least {LEAST_SIDE} pixels a side",
        "width": crop.width,
        "height": crop.height,
    }
    out.picture(path, crop, **everything)
