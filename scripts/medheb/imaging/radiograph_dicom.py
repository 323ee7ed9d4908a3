"""Radiographs and mammograms from DICOM to 8 bit: the one rendering that all builds use.

For every grey pixel, in this order (DICOM PS3.3 C.11.1, C.11.2; C.7.5.1.1.2 for padding):

1. the stored value, as wide as *Bits Stored* says;
2. modality look-up table, else ``value * RescaleSlope + RescaleIntercept`` (1 and 0 where absent);
3. VOI look-up table, else the first window with its *VOI LUT Function* (linear, exact linear, sigmoid). A window
   that is absent, impossible or leaves one grey only is replaced by the smallest and largest value of the picture,
   padding left out;
4. to 0..255, rounded half up;
5. 255 minus that for MONOCHROME1, once: *Presentation LUT Shape* says the same and is not applied again;
6. padding (*Pixel Padding Value* up to *Pixel Padding Range Limit*) becomes 0, the background of both kinds.

All of it depends on the stored value alone, so it is computed for each possible value and looked up. Colour files
become RGB and pass no window. Nothing that tells who the patient is leaves this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.pixels import apply_modality_lut, apply_voi

from medheb.core.errors import MedhebError
from medheb.imaging.dicom_pixels import GET_AGAIN, MAX_PIXELS, READ_ERRORS, decode, quiet, read_header
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture

Values = NDArray[np.float64]
RADIOGRAPHS = frozenset({"CR", "DX", "DR", "MG", "RG", "IO", "PX"})
GREY = ("MONOCHROME1", "MONOCHROME2")
SIDES = {"L": "left", "R": "right", "B": "both", "U": "unpaired"}
VIEWS = frozenset(
    {"AP", "PA", "LL", "RL", "LATERAL", "CC", "MLO", "ML", "LM", "LMO", "XCC", "XCCL", "XCCM", "FB", "SIO"}
)
TABLE_BYTES = 2
STRIP_ROWS = 16  # fits the cache of a processor, twice as fast as all at once


@dataclass(frozen=True)
class Radiograph:
    """A rendered picture and what is known of it.

    ``picture`` is uint8, (H, W) grey or (H, W, 3) RGB. ``laterality`` is ``left``, ``right``, ``both``, ``unpaired``
    or None; ``view`` one of the standard's codes (``PA``, ``MLO``) or None. ``contrast`` tells the rule of step 3:
    ``VOI LUT``, ``window``, ``smallest to largest`` or ``colour``. ``padding`` counts background pixels. ``notes`` are
    fixed phrases about what was unusual, so that they can be counted over a source.
    """

    picture: Picture
    photometric: str
    bits_stored: int
    contrast: str
    padding: int
    laterality: str | None
    view: str | None
    notes: tuple[str, ...]

    @property
    def inverted(self) -> bool:
        """True if the file stores white as its smallest value."""
        return self.photometric == "MONOCHROME1"


def _first_number(header: pydicom.Dataset, name: str) -> float | None:
    """First value of a decimal element; None if it is absent, blank or no finite number."""
    try:
        value = header.get(name)
        if isinstance(value, (list, tuple, pydicom.multival.MultiValue)):
            value = value[0]
        number = float(value)
    except (TypeError, ValueError, IndexError):
        return None
    return number if math.isfinite(number) else None


def _text(header: pydicom.Dataset, name: str) -> str:
    value = header.get(name)
    return value.strip().upper() if isinstance(value, str) else ""


def _rescaled(header: pydicom.Dataset, stored: Array, path: Path) -> Array:
    """Step 2."""
    if header.get("ModalityLUTSequence"):
        return np.asarray(apply_modality_lut(stored, header))
    slope, intercept = _first_number(header, "RescaleSlope"), _first_number(header, "RescaleIntercept")
    if slope == 0:
        raise MedhebError(path, "has RescaleSlope 0, which would make all pixels equal", GET_AGAIN)
    return stored.astype(np.float64) * (1.0 if slope is None else slope) + (intercept or 0.0)


def _sigmoid(centre: float, width: float, values: Values) -> Values:
    unit: Values = 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
    return unit


def _window(header: pydicom.Dataset) -> Callable[[Values], Values] | None:
    """The first window as a function to 0..1; None if there is none that can be applied."""
    centre, width = _first_number(header, "WindowCenter"), _first_number(header, "WindowWidth")
    function = _text(header, "VOILUTFunction") or "LINEAR"
    if centre is None or width is None or width <= 0 or (function == "LINEAR" and width < 1):
        return None
    if function == "SIGMOID":
        return partial(_sigmoid, centre, width)
    if function not in {"LINEAR", "LINEAR_EXACT"}:
        return None
    middle, breadth = (centre - 0.5, width - 1) if function == "LINEAR" else (centre, width)
    if breadth == 0:
        return lambda values: (values > middle).astype(np.float64)
    return lambda values: np.clip((values - middle) / breadth + 0.5, 0, 1)


def _voi_table(header: pydicom.Dataset) -> Callable[[Values], Values] | None:
    """The first VOI look-up table as a function to 0..1; None if there is none."""
    if not header.get("VOILUTSequence") or header.VOILUTSequence[0].get("LUTData") is None:
        return None
    brightest = float((1 << int(header.VOILUTSequence[0].LUTDescriptor[2])) - 1)

    def mapped(values: Values) -> Values:
        whole = np.clip(np.rint(values), -(1 << 31), (1 << 31) - 1).astype(np.int64)
        return np.asarray(apply_voi(whole, header), dtype=np.float64).clip(0, brightest) / brightest

    return mapped


def _to_grey(unit: Values) -> Picture:
    grey: Picture = np.floor(unit * 255 + 0.5).astype(np.uint8)
    return grey


def _padding_range(header: pydicom.Dataset, stored: Array) -> tuple[float, float] | None:
    """Smallest and largest stored value that means background; None if the file declares none."""
    first = _first_number(header, "PixelPaddingValue")
    if first is None:
        return None
    last = _first_number(header, "PixelPaddingRangeLimit")
    ends = [first, first if last is None else last]
    if stored.dtype.kind == "i":  # often written as if the pixels had no sign
        bits = 8 * stored.dtype.itemsize
        ends = [end - (1 << bits) if end >= 1 << (bits - 1) else end for end in ends]
    return min(ends), max(ends)


def _contrast(header: pydicom.Dataset, low: float, high: float) -> tuple[Callable[[Values], Values], str, list[str]]:
    """Step 3: a function from values to 0..1, its name, and notes. ``low`` and ``high`` are the picture's ends."""
    notes: list[str] = []
    for name, rule in (("VOI LUT", _voi_table(header)), ("window", _window(header))):
        if rule is None:
            continue
        ends = _to_grey(rule(np.array([low, high])))
        if low == high or ends[0] != ends[1]:
            return rule, name, notes
        notes.append(f"{name} leaves one grey only, not applied")
    if not notes:
        given = header.get("WindowCenter") is not None or header.get("WindowWidth") is not None
        notes.append("impossible window" if given else "no window")
    if low == high:
        return lambda values: np.zeros_like(values), "smallest to largest", [*notes, "one value everywhere"]
    return lambda values: np.clip((values - low) / (high - low), 0, 1), "smallest to largest", notes


def _look_up(stored: Array, grey_of: Callable[[Array], Picture]) -> Picture:
    """``grey_of`` of every pixel: over all possible values and looked up for 8 and 16 bit; strip by strip."""
    picture: Picture = np.empty(stored.shape, dtype=np.uint8)
    native = stored.astype(stored.dtype.newbyteorder("="), copy=False)
    tabled = native.dtype.kind in "iu" and native.dtype.itemsize <= TABLE_BYTES
    if tabled:
        unsigned = np.dtype(f"u{native.dtype.itemsize}")
        patterns = np.arange(1 << (8 * unsigned.itemsize), dtype=unsigned)
        table = grey_of(patterns.view(native.dtype))
        native = native.view(unsigned)
    for top in range(0, stored.shape[0], STRIP_ROWS):
        strip, target = native[top : top + STRIP_ROWS], picture[top : top + STRIP_ROWS]
        if tabled:
            # No index is outside, so "clip" changes nothing; it spares numpy a copy of the result.
            np.take(table, strip, out=target, mode="clip")
        else:
            target[:] = grey_of(strip)
    return picture


def _render_grey(header: pydicom.Dataset, stored: Array, path: Path) -> tuple[Picture, str, int, list[str]]:
    """Steps 2 to 6: picture, rule of step 3, padding pixels, notes."""
    if stored.dtype.kind == "f" and not np.isfinite(stored).all():
        raise MedhebError(path, "holds pixels that are no finite numbers", GET_AGAIN)
    padding = _padding_range(header, stored)
    ends, hidden = np.array([stored.min(), stored.max()]), 0
    if padding is not None and padding[0] <= ends[1] and ends[0] <= padding[1]:
        outside = (stored < padding[0]) | (stored > padding[1])
        hidden = int(stored.size - np.count_nonzero(outside))
        if hidden == stored.size:
            raise MedhebError(path, "holds padding only, no picture", GET_AGAIN)
        shown = stored[outside]
        ends = np.array([shown.min(), shown.max()])
    # With a table the order of values may change, so its ends are those of all values in between.
    if header.get("ModalityLUTSequence"):
        ends = np.arange(int(ends[0]), int(ends[1]) + 1, dtype=np.int64)
    values = _rescaled(header, ends, path)
    rule, contrast, notes = _contrast(header, float(values.min()), float(values.max()))
    inverted = header.PhotometricInterpretation == "MONOCHROME1"

    def grey_of(raw: Array) -> Picture:
        grey = _to_grey(rule(_rescaled(header, raw, path).astype(np.float64)))
        if inverted:
            grey = 255 - grey
        if padding is not None:
            grey[(raw >= padding[0]) & (raw <= padding[1])] = 0
        return grey

    return _look_up(stored, grey_of), contrast, hidden, notes


def _render_colour(header: pydicom.Dataset, values: Array, path: Path) -> Picture:
    if values.dtype == np.uint16:
        bits = 16 if header.PhotometricInterpretation == "PALETTE COLOR" else int(header.BitsStored)
        values = (values >> max(0, bits - 8)).clip(0, 255).astype(np.uint8)
    if values.dtype != np.uint8:
        raise MedhebError(path, f"has colours of type {values.dtype}", "Convert it to 8 bit RGB")
    return np.ascontiguousarray(values)


def _facts(header: pydicom.Dataset) -> tuple[str | None, str | None, list[str]]:
    """Laterality, view and notes, from closed lists: free text of a header could name a person."""
    side = SIDES.get(_text(header, "ImageLaterality") or _text(header, "Laterality"))
    view = _text(header, "ViewPosition")
    shape = _text(header, "PresentationLUTShape")
    usual = {"MONOCHROME1": "INVERSE", "MONOCHROME2": "IDENTITY"}.get(header.PhotometricInterpretation)
    notes = []
    if usual is not None and shape not in {"", usual}:
        notes.append("presentation shape contradicts the photometric interpretation")
    if _text(header, "PresentationIntentType") == "FOR PROCESSING":
        notes.append("raw data of the detector, not meant to be shown")
    return side, view if view in VIEWS else None, notes


def read_radiograph(
    path: Path, modalities: frozenset[str] | None = RADIOGRAPHS, max_pixels: int = MAX_PIXELS
) -> Radiograph:
    """Read and render one DICOM file.

    Args:
        path: the file, with any suffix.
        modalities: accepted values of *Modality*; files without the element are accepted. None accepts all.
        max_pixels: rows times columns at most, checked before decoding.

    Raises:
        MedhebError: not DICOM, another modality, no or several pictures, an unknown or damaged encoding, padding
            only, or colours that are no whole numbers.
    """
    with quiet():
        try:
            header = read_header(path)
            modality = _text(header, "Modality")
            if modalities is not None and modality and modality not in modalities:
                wanted = ", ".join(sorted(modalities))
                known = modality if modality.isalpha() and len(modality) <= 8 else "unknown"
                raise MedhebError(path, f"is of modality {known}", f"Accepted: {wanted}. Take the file out")
            stored = decode(header, path, max_pixels)
            if stored.values.ndim == 3:
                picture, contrast, padding = _render_colour(header, stored.values, path), "colour", 0
                notes: list[str] = []
            elif header.PhotometricInterpretation in GREY:
                picture, contrast, padding, notes = _render_grey(header, stored.values, path)
            else:
                raise MedhebError(path, "is neither grey nor a known kind of colour", GET_AGAIN)
            side, view, more = _facts(header)
            bits = int(header.get("BitsStored") or 8 * stored.values.dtype.itemsize)
        except READ_ERRORS as error:
            raise MedhebError(path, "has a header whose values cannot be used", GET_AGAIN) from error
    photometric = str(header.PhotometricInterpretation)
    return Radiograph(picture, photometric, bits, contrast, padding, side, view, (*stored.notes, *notes, *more))


def facts_of(radiograph: Radiograph) -> dict[str, str | int | None]:
    """What an inventory keeps of a radiograph: plain values, no notes."""
    return {
        "photometric": radiograph.photometric,
        "bits_stored": radiograph.bits_stored,
        "contrast": radiograph.contrast,
        "padding": radiograph.padding,
        "laterality": radiograph.laterality,
        "view": radiograph.view,
    }
