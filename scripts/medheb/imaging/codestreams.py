"""What the first bytes of a compressed picture say: encoding and size. Nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from pydicom import uid

JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
# Start-of-frame markers of JPEG (ITU-T T.81, table B.1) and JPEG-LS (T.87).
FRAMES = {0xC0: uid.JPEGBaseline8Bit, 0xC1: uid.JPEGExtended12Bit, 0xC3: uid.JPEGLossless, 0xF7: uid.JPEGLSLossless}
# Start of a JPEG 2000 codestream and its size segment (ITU-T T.800, annex A), possibly inside a JP2 file.
JPEG_2000_START, JP2_MARK = b"\xff\x4f\xff\x51", b"jP  "
RLE_HEADER_BYTES, RLE_MAX_SEGMENTS = 64, 15


@dataclass(frozen=True)
class Codestream:
    """Transfer syntax that fits a stream, its (rows, columns) where it says so, and whether its end is there."""

    syntax: uid.UID
    size: tuple[int, int] | None
    ended: bool = True


def _number(stream: bytes, place: int, length: int) -> int:
    return int.from_bytes(stream[place : place + length], "big")


def _jpeg(stream: bytes) -> Codestream | None:
    place = len(JPEG_START)
    while place + 9 <= len(stream) and stream[place] == 0xFF:
        if stream[place + 1] in FRAMES:
            size = (_number(stream, place + 5, 2), _number(stream, place + 7, 2))
            ended = stream[-16:].rstrip(b"\x00").endswith(JPEG_END)
            return Codestream(FRAMES[stream[place + 1]], size, ended)
        fill = stream[place + 1] == 0xFF  # any number of these may stand before a marker
        place += 1 if fill else 2 + _number(stream, place + 2, 2)
    return None


def look_at(stream: bytes) -> Codestream | None:
    """The kind of a compressed frame; None if it is none that DICOM files of single pictures use.

    Args:
        stream: one frame, padded with zero bytes or not.
    """
    if stream.startswith(JPEG_START):
        return _jpeg(stream)
    start = stream.find(JPEG_2000_START, 0, 4096) if stream[4:8] == JP2_MARK else 0
    if start >= 0 and stream[start : start + 4] == JPEG_2000_START:
        columns, rows, left, top = (_number(stream, start + 8 + 4 * index, 4) for index in range(4))
        return Codestream(uid.JPEG2000, (rows - top, columns - left))
    segments = int.from_bytes(stream[:4], "little")
    first = int.from_bytes(stream[4:8], "little")
    if len(stream) >= RLE_HEADER_BYTES == first and 1 <= segments <= RLE_MAX_SEGMENTS:
        return Codestream(uid.RLELossless, None)
    return None
