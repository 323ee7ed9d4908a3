"""Digests: what they must and must not depend on."""

import subprocess
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medheb.core.digests import (
    content_digest,
    digests_of,
    merkle_root,
    pixel_digest,
    read_sha256sums,
    sha256_bytes,
    sha256sums,
)

NAMES = st.text(st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"]), min_size=1)


def encoded(pixels: np.ndarray, **options: object) -> bytes:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", **options)
    return buffer.getvalue()


def test_pixel_digest_ignores_compression_and_sees_one_pixel() -> None:
    pixels = np.arange(600, dtype=np.uint8).reshape(20, 30)
    fast, small = encoded(pixels, compress_level=0), encoded(pixels, compress_level=9)
    assert fast != small
    assert pixel_digest(fast) == pixel_digest(small)
    changed = pixels.copy()
    changed[3, 4] ^= 1
    assert pixel_digest(encoded(changed)) != pixel_digest(fast)


def test_pixel_digest_sees_shape_and_mode() -> None:
    flat = np.zeros(12, dtype=np.uint8)
    digests = {pixel_digest(encoded(flat.reshape(shape))) for shape in ((3, 4), (4, 3), (2, 6), (2, 2, 3))}
    assert len(digests) == 4


def palette_png(order: list[int], colours: list[tuple[int, int, int]]) -> bytes:
    """A picture of 2 x 2: its colours, by numbers of a palette in some order."""
    image = Image.new("P", (2, 2))
    palette = [colours[index] for index in order]
    image.putpalette([value for colour in palette for value in colour])
    image.putdata([order.index(place) for place in range(4)])
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_pixel_digest_sees_colours_of_a_palette_not_its_order() -> None:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (9, 9, 9)]
    one, two = palette_png([0, 1, 2, 3], colours), palette_png([2, 0, 3, 1], colours)
    assert pixel_digest(one) == pixel_digest(two)
    assert pixel_digest(one) != pixel_digest(palette_png([0, 1, 2, 3], [*colours[:3], (9, 9, 10)]))


def test_a_grey_picture_is_the_same_in_rgb() -> None:
    grey = np.arange(600, dtype=np.uint8).reshape(20, 30)
    colour = np.stack([grey] * 3, axis=-1)
    path = Path("x.png")
    own, none = digests_of(path, encoded(grey))
    other, as_grey = digests_of(path, encoded(colour))
    assert (none, as_grey) == (None, own)
    assert other != own, "the audit still tells them apart"
    for place in ((0, 0), (19, 29), (10, 15)):  # first, last and middle pixel
        for channel in range(3):
            tinted = colour.copy()
            tinted[*place, channel] ^= 1
            assert digests_of(path, encoded(tinted))[1] is None
    assert digests_of(path, encoded(np.zeros((1, 1, 3), dtype=np.uint8)))[1] is not None


def test_content_digest_of_json_ignores_layout() -> None:
    loose, tight = b'{"b": 1,\n "a": 2}', b'{"a":2,"b":1}'
    assert content_digest(Path("x.json"), loose) == content_digest(Path("x.json"), tight)
    assert content_digest(Path("x.json"), b'{"a":3,"b":1}') != content_digest(Path("x.json"), tight)
    with pytest.raises(ValueError, match="Expecting"):
        content_digest(Path("x.json"), b"{")
    with pytest.raises(OSError, match="cannot identify"):
        content_digest(Path("x.png"), b"no picture")


@given(st.dictionaries(NAMES, st.sampled_from(["a" * 64, "b" * 64]), min_size=1))
def test_merkle_root_sees_every_path_and_digest_but_no_order(digests: dict[str, str]) -> None:
    root = merkle_root(digests)
    assert root == merkle_root(dict(reversed(digests.items())))
    name = next(iter(digests))
    assert root != merkle_root({**digests, name: "c" * 64})
    assert root != merkle_root({key: value for key, value in digests.items() if key != name})


def test_merkle_root_by_hand() -> None:
    import hashlib

    leaf = {n: hashlib.sha256(b"\x00" + n.encode() + b"\x00" + b"d" * 64).digest() for n in "abc"}
    pair = hashlib.sha256(b"\x01" + leaf["a"] + leaf["b"]).digest()
    assert merkle_root(dict.fromkeys("abc", "d" * 64)) == hashlib.sha256(b"\x01" + pair + leaf["c"]).hexdigest()


@given(st.dictionaries(NAMES, st.just("a" * 64)))
def test_sha256sums_round_trip(digests: dict[str, str]) -> None:
    assert read_sha256sums(sha256sums(digests).split("\n")) == digests


def test_sha256sums_is_what_coreutils_checks(tmp_path: Path) -> None:
    names = ["plain", "with blank", "new\nline", "back\\slash", "ünïcode"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "SUMS").write_text(sha256sums({name: sha256_bytes(name.encode()) for name in names}))
    check = subprocess.run(["sha256sum", "--strict", "-c", "SUMS"], cwd=tmp_path, capture_output=True, check=False)
    assert check.returncode == 0, check.stderr


def test_one_blank_sums_and_wrong_lines() -> None:
    assert read_sha256sums([f"{'a' * 64} files/x y"]) == {"files/x y": "a" * 64}
    assert read_sha256sums([f"{'a' * 64} *binary"]) == {"binary": "a" * 64}
    with pytest.raises(ValueError, match="line 1"):
        read_sha256sums(["zz  file"])
