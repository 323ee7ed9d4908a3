"""Content digests: files, pixels, JSON, and Merkle roots over them (design.md section 4, "Digests").

* L0/L1: sha256 of a file's bytes.
* L2: of what a file says: pixels of an image, canonical form of JSON and text. PNG bytes depend on
  the host's zlib, so an auditor compares L2 where L1 differs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from medheb.core.json_text import parse_json

CHUNK_BYTES = 1 << 20
CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
PIXEL_TAG = "pix1"
JSON_TAG = "json1"
TEXT_TAG = "text1"
PROBE = 3000
PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp"})


def sha256_bytes(content: bytes) -> str:
    """Hex sha256 of ``content``."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def pixel_digest(content: bytes) -> str:
    """L2 digest of an encoded image; see :func:`picture_digests`.

    Raises:
        OSError: the bytes are not a readable image.
    """
    with Image.open(BytesIO(content)) as image:
        return picture_digests(image)[0]


def picture_digests(image: Image.Image) -> tuple[str, str | None]:
    """L2 digest of a picture (mode, width, height and row-major samples), and its :func:`grey_digest`.

    Numbers of a palette count as the colours that they stand for. EXIF, ICC and text chunks do not count and
    orientation tags are not applied, so any lossless re-encoding keeps the digest. Samples wider than a byte are
    little-endian.
    """
    image.load()
    form = (image.mode, *image.size)
    samples = (image.convert("RGBA") if image.mode in {"P", "PA"} else image).tobytes()
    return samples_digest(*form, samples), grey_digest(*form, samples)


def samples_digest(mode: str, width: int, height: int, samples: bytes) -> str:
    """L2 digest of a picture in memory; equal to :func:`pixel_digest` of any lossless file of it.

    Args:
        mode: as Pillow names it.
        width: pixels.
        height: pixels.
        samples: row by row, as Pillow's ``tobytes`` gives them.
    """
    digest = hashlib.sha256(f"{PIXEL_TAG}|{mode}|{width}|{height}|".encode())
    digest.update(samples)
    return f"{PIXEL_TAG}:{digest.hexdigest()}"


def grey_digest(mode: str, width: int, height: int, samples: bytes) -> str | None:
    """Digest that an RGB picture without colour would have in mode L; None for every other picture.

    Models see the two alike, so who looks for repeated pictures compares this one. Arguments: :func:`samples_digest`.
    """
    middle = width * height // 2 * 3
    if mode != "RGB" or samples[middle : middle + PROBE : 3] != samples[middle + 1 : middle + 1 + PROBE : 3]:
        return None  # most pictures with colour show it here
    grey = samples[::3]
    return samples_digest("L", width, height, grey) if grey == samples[1::3] == samples[2::3] else None


def canonical_json(content: Any) -> bytes:
    """UTF-8 JSON with sorted keys and no blanks: the form that digests of structured data are taken of."""
    return CANONICAL.encode(content).encode()


def json_digest(content: Any) -> str:
    """Hex sha256 of the canonical JSON of ``content``."""
    return sha256_bytes(canonical_json(content))


def digests_of(path: Path, content: bytes) -> tuple[str, str | None]:
    """:func:`content_digest` of a file, and its :func:`grey_digest` if it is a picture."""
    if path.suffix.lower() in PICTURE_SUFFIXES:
        with Image.open(BytesIO(content)) as image:
            return picture_digests(image)
    return content_digest(path, content), None


def content_digest(path: Path, content: bytes) -> str:
    """L2 digest of a built file, chosen by its suffix: pixels, canonical JSON (lines), or the bytes.

    Raises:
        OSError: an image that cannot be decoded.
        ValueError: a JSON file that cannot be parsed.
    """
    suffix = path.suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        return pixel_digest(content)
    if suffix == ".json":
        return f"{JSON_TAG}:{json_digest(parse_json(content))}"
    if suffix == ".jsonl":
        rows = [parse_json(line) for line in content.splitlines() if line.strip()]
        return f"{JSON_TAG}:{json_digest(rows)}"
    if suffix in {".txt", ".csv", ".tsv"}:
        lines = content.replace(b"\r\n", b"\n")
        return f"{TEXT_TAG}:{sha256_bytes(lines)}"
    return f"bytes1:{sha256_bytes(content)}"


def merkle_root(digests: Mapping[str, str]) -> str:
    """Merkle root over ``path -> digest``, paths in bytewise order.

    leaf = sha256(0x00 | path | 0x00 | digest), node = sha256(0x01 | left | right); an odd node is
    carried up unchanged; no entries give sha256 of nothing.
    """
    level: list[bytes] = [
        hashlib.sha256(b"\x00" + path.encode() + b"\x00" + digest.encode()).digest()
        for path, digest in sorted(digests.items(), key=lambda item: item[0].encode())
    ]
    if not level:
        return hashlib.sha256(b"").hexdigest()
    while len(level) > 1:
        paired = [hashlib.sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0].hex()


def sha256sums(digests: Mapping[str, str]) -> str:
    """``SHA256SUMS`` text as coreutils writes it: two blanks, bytewise order, LF.

    Names with a backslash or newline are escaped the way ``sha256sum`` does it.
    """
    lines: list[str] = []
    for path, digest in sorted(digests.items(), key=lambda item: item[0].encode()):
        escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if escaped != path else ""
        lines.append(f"{mark}{digest}  {escaped}\n")
    return "".join(lines)


def read_sha256sums(lines: Iterable[str]) -> dict[str, str]:
    """Inverse of :func:`sha256sums`; also accepts one blank and the binary mark ``*``.

    Raises:
        ValueError: a line that is not ``<64 hex> <path>``.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\n")
        if not text:
            continue
        escaped = text.startswith("\\")
        body = text[1:] if escaped else text
        digest, rest = body[:64], body[64:]
        if len(digest) != 64 or not all(c in "0123456789abcdef" for c in digest) or not rest.startswith(" "):
            raise ValueError(f"line {number} is not '<sha256>  <path>'")
        path = rest[2:] if rest[1:2] in {" ", "*"} else rest[1:]
        if escaped:
            path = path.replace("\\n", "\n").replace("\\r", "\r").replace("\\\\", "\\")
        found[path] = digest
    return found
