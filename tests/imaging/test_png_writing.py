"""PNG files: every mode, the same pixels after decoding, digests without decoding."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from medheb.core.digests import pixel_digest, sha256_file
from medheb.imaging.png import encode_picture, write_picture

CHANNELS = {"L": (), "LA": (2,), "RGB": (3,), "RGBA": (4,)}


def decoded(content: bytes) -> Image.Image:
    with Image.open(BytesIO(content)) as image:
        image.load()
        return image


@pytest.mark.parametrize("mode", list(CHANNELS))
@given(data=st.data())
def test_true_samples_come_back(mode: str, data: st.DataObject) -> None:
    sides = st.integers(1, 40)
    shape = data.draw(st.tuples(sides, sides)) + CHANNELS[mode]
    array = data.draw(hnp.arrays(np.uint8, shape))
    content, digests = encode_picture(array)
    image = decoded(content)
    assert image.mode == mode
    assert np.array_equal(np.asarray(image), array)
    assert digests.content == pixel_digest(content)
    assert digests.bytes == len(content)


@given(hnp.arrays(np.uint16, st.tuples(st.integers(1, 30), st.integers(1, 30))))
def test_sixteen_bits_come_back(array: np.ndarray) -> None:
    content, digests = encode_picture(array)
    image = decoded(content)
    assert image.mode == "I;16"
    assert np.array_equal(np.asarray(image), array)
    assert digests.content == pixel_digest(content)


def pillow_pictures() -> list[Image.Image]:
    ramp = Image.fromarray(np.arange(35 * 23, dtype=np.uint16).astype(np.uint8).reshape(35, 23))
    palette = ramp.convert("RGB").quantize(16)
    see_through = ramp.convert("P")
    see_through.info["transparency"] = 3
    return [
        ramp,
        ramp.convert("1"),
        ramp.convert("P"),
        palette,
        see_through,
        ramp.convert("RGBA").convert("P", palette=Image.Palette.ADAPTIVE, colors=5),
        ramp.convert("LA"),
        ramp.convert("RGB"),
        ramp.convert("RGBA"),
    ]


@pytest.mark.parametrize("image", pillow_pictures(), ids=lambda image: image.mode)
def test_each_mode_decodes_to_what_pillow_itself_would_write(tmp_path: Path, image: Image.Image) -> None:
    digests = write_picture(tmp_path / "ours.png", image)
    image.save(tmp_path / "theirs.png")
    content = (tmp_path / "ours.png").read_bytes()
    assert digests.sha256 == sha256_file(tmp_path / "ours.png")
    assert digests.content == pixel_digest(content) == pixel_digest((tmp_path / "theirs.png").read_bytes())
    with Image.open(tmp_path / "theirs.png") as theirs:
        assert decoded(content).convert("RGBA").tobytes() == theirs.convert("RGBA").tobytes()


def test_no_metadata_is_carried_over() -> None:
    image = Image.new("L", (4, 4), 7)
    image.info.update({"icc_profile": b"profile", "dpi": (72, 72), "note": "name of a patient"})
    palette = image.convert("P")
    palette.info["icc_profile"] = b"profile"
    for picture in (image, palette):
        content, _ = encode_picture(picture)
        assert not decoded(content).info


def test_memory_order_does_not_matter() -> None:
    array = np.arange(60, dtype=np.uint8).reshape(6, 10)
    assert encode_picture(np.asfortranarray(array)) == encode_picture(array)
    assert encode_picture(array[::-1][::-1]) == encode_picture(array)


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((2, 2), dtype=np.int16),
        np.zeros((2, 2), dtype=np.float32),
        np.zeros((0, 3), dtype=np.uint8),
        np.zeros(5, dtype=np.uint8),
        np.zeros((2, 2, 3, 1), dtype=np.uint8),
        np.zeros((2, 2, 1), dtype=np.uint8),
        np.zeros((2, 2, 5), dtype=np.uint8),
        np.zeros((2, 2, 3), dtype=np.uint16),
    ],
)
def test_what_is_no_picture_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(ValueError, match="a picture is uint8"):
        encode_picture(picture)


def test_wide_samples_become_sixteen_bits_or_are_refused() -> None:
    samples = np.array([[0, 65_535], [1, 300]], dtype=np.int32)
    content, digests = encode_picture(Image.fromarray(samples))
    assert np.array_equal(np.asarray(decoded(content)), samples)
    assert digests.content == pixel_digest(content)
    for wrong in (70_000, -5):
        samples[0, 0] = wrong
        with pytest.raises(ValueError, match="a PNG holds 0 to 65535"):
            encode_picture(Image.fromarray(samples))


@pytest.mark.parametrize("mode", ["CMYK", "F", "HSV"])
def test_modes_that_png_lacks_are_refused_by_name(mode: str) -> None:
    with pytest.raises(ValueError, match=f"no PNG of mode {mode}"):
        encode_picture(Image.new(mode, (3, 3)))


def test_files_are_not_larger_than_pillow_s_fastest() -> None:
    rng = np.random.default_rng(1)
    smooth = np.add.outer(np.sin(np.arange(256) / 30), np.cos(np.arange(256) / 50)) * 50 + 120
    picture = (smooth + rng.normal(0, 3, smooth.shape)).astype(np.uint8)
    stream = BytesIO()
    Image.fromarray(picture).save(stream, format="PNG", compress_level=1)
    assert len(encode_picture(picture)[0]) < 1.1 * len(stream.getvalue())
