"""Picture files: decoded by content, unusual pixels by named rules, damage refused with a sentence."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageFile

from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes, to_array, to_mask
from medheb.imaging.pictures import SUFFIXES, Decoded, decode_picture, read_picture

SIZE = (24, 16)


def noise(mode: str = "RGB", seed: int = 1) -> Image.Image:
    """A picture whose file cannot be cut without loss."""
    channels = {"L": (), "RGB": (3,), "RGBA": (4,), "LA": (2,), "CMYK": (4,)}[mode]
    samples = np.random.default_rng(seed).integers(0, 256, (SIZE[1], SIZE[0], *channels), dtype=np.uint8)
    return Image.frombytes(mode, SIZE, samples.tobytes())


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.fixture(autouse=True)
def _no_warning_escapes(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    yield
    assert [str(warning.message) for warning in recwarn] == []


def decoded(content: bytes, **options: object) -> Decoded:
    return decode_picture(content, "a.parquet, row 7", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP", "PPM", "WEBP", "JPEG2000"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_lossless_formats_give_their_pixels(kind: str, mode: str) -> None:
    options = {"WEBP": {"lossless": True}, "JPEG2000": {"irreversible": False}}.get(kind, {})
    picture = noise(mode)
    found = decoded(encoded(picture, kind, **options))
    assert found.format == kind
    assert np.array_equal(np.asarray(found.image.convert("RGB")), np.asarray(picture.convert("RGB")))
    assert found.notes == ()


def test_a_wrong_suffix_is_noted_and_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "picture.JPG"
    path.write_bytes(encoded(noise()))
    found = read_picture(path)
    assert (found.format, found.notes) == ("PNG", ("PNG under the name of a JPEG file",))
    assert decoded(encoded(noise()), name="x/y.jpeg").notes == ("PNG under the name of a JPEG file",)
    for name in ("y.png", "y.PNG", "y", "y.dat", ".png"):
        assert decoded(encoded(noise()), name=name).notes == ()
    assert {suffix for suffixes in SUFFIXES.values() for suffix in suffixes} >= {".png", ".jpg", ".jpeg", ".tif"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty (0 bytes)"),
        (bytes(5000), "holds zero bytes only (5000)"),
        (b"image_id,label\n1,2\n", "is not a picture, or its first bytes are damaged"),
        (b"<!DOCTYPE html><title>Sign in</title>", "is a web page, not a picture"),
        (b"  <html>", "is a web page, not a picture"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "is the pointer of a large file, not the file itself"),
        (b"%PDF-1.4", "is a PDF, not a picture"),
        (b"PK\x03\x04abc", "is a ZIP archive, not a picture"),
        (bytes(128) + b"DICM" + bytes(64), "is a DICOM file, not a plain picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is not a picture"),
        (encoded(noise())[:400], "is a picture whose end is missing"),
        (encoded(noise(), "JPEG")[:400], "is a picture whose end is missing"),
        (encoded(noise())[:20], "is a picture whose end is missing"),
        (encoded(noise())[:-12], "is a picture whose end is missing"),
        (encoded(noise(), "TIFF")[:300], "is a"),
    ],
)
def test_what_is_no_whole_picture_is_refused_by_row(content: bytes, fault: str) -> None:
    with pytest.raises(MedhebError) as caught:
        decoded(content)
    assert str(caught.value).startswith(f"a.parquet, row 7: {fault}")
    assert caught.value.remedy


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"gone\.png: is missing"):
        read_picture(tmp_path / "gone.png")
    with pytest.raises(MedhebError, match="cannot be read"):
        read_picture(tmp_path)


def test_a_flipped_bit_in_a_png_is_seen() -> None:
    content = bytearray(encoded(noise()))
    place = content.index(b"IDAT")
    length = int.from_bytes(content[place - 4 : place], "big")
    for position in (place + 4 + length // 2, place + 4 + length + 1):  # in the data, in their checksum
        damaged = bytearray(content)
        damaged[position] ^= 1
        with pytest.raises(MedhebError, match="is a damaged picture"):
            decoded(bytes(damaged))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_cut_picture_is_filled_only_where_the_published_program_does(kind: str) -> None:
    whole = encoded(noise(), kind)
    found = decoded(whole[:-100], truncated="fill")
    assert found.notes == ("damaged, missing part filled",)
    assert found.image.size == SIZE
    assert np.array_equal(np.asarray(found.image)[0, :8], np.asarray(decoded(whole).image)[0, :8])
    assert decoded(whole, truncated="fill").notes == ()
    assert not ImageFile.LOAD_TRUNCATED_IMAGES
    with pytest.raises(MedhebError, match=r"whose end is missing|its first bytes are damaged"):
        decoded(whole[:20], truncated="fill")
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


def test_too_many_pixels_are_refused_before_any_is_decoded() -> None:
    header = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    with pytest.raises(MedhebError, match="row 7: "):
        decoded(bomb)
    smaller = encoded(Image.new("1", (9_000, 9_000)))
    with pytest.raises(MedhebError, match=r"declares too many pixels: 9000 x 9000, allowed are 80,000,000"):
        decoded(smaller)
    with pytest.raises(MedhebError, match=r"declares too many pixels: 24 x 16, allowed are 383"):
        decoded(encoded(noise()), max_pixels=383)
    assert decoded(encoded(noise()), max_pixels=384).image.size == SIZE


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("tag", range(1, 9))
def test_exif_orientation_is_applied_or_kept(kind: str, tag: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = tag
    stored = noise("L")
    content = encoded(stored, kind, exif=exif.tobytes())
    kept, turned = decoded(content, orientation="keep"), decoded(content)
    lying = np.asarray(decoded(encoded(stored, kind)).image)
    assert np.array_equal(np.asarray(kept.image), lying)
    upright = {
        1: lying,
        2: lying[:, ::-1],
        3: lying[::-1, ::-1],
        4: lying[::-1],
        5: lying.T,
        6: lying.T[:, ::-1],
        7: lying.T[::-1, ::-1],
        8: lying.T[::-1],
    }[tag]
    assert np.array_equal(np.asarray(turned.image), upright)
    assert kept.notes == ()
    assert turned.notes == (() if tag == 1 else ("turned as its EXIF tag says",))


@pytest.mark.parametrize("value", [0, 9, 700])
def test_a_senseless_orientation_is_none(value: int) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = value
    assert decoded(encoded(noise(), exif=exif.tobytes())).notes == ()


def test_a_damaged_exif_block_does_not_stop_a_sound_picture() -> None:
    content = encoded(noise())
    end = content.index(b"IDAT") - 4
    spoiled = content[:end] + chunk(b"eXIf", b"II*\x00\xff\xff\xff\x7f\x00\x00\x00\x00") + content[end:]
    assert decoded(spoiled).image.size == SIZE


def test_cmyk_and_palettes_become_rgb() -> None:
    cmyk = decoded(encoded(noise("CMYK"), "TIFF"))
    assert (cmyk.image.mode, cmyk.stored_mode, cmyk.notes) == ("RGB", "CMYK", ("CMYK to RGB",))
    assert np.array_equal(np.asarray(cmyk.image), np.asarray(noise("CMYK").convert("RGB")))
    palette = noise().quantize(16)
    found = decoded(encoded(palette))
    assert (found.image.mode, found.stored_mode, found.notes) == ("RGB", "P", ("P to RGB",))
    assert np.array_equal(np.asarray(found.image), np.asarray(palette.convert("RGB")))


def test_one_bit_becomes_grey_and_grey_stays() -> None:
    bits = noise("L").convert("1")
    found = decoded(encoded(bits))
    assert (found.image.mode, found.notes) == ("L", ("1 bit to 8",))
    assert set(np.unique(np.asarray(found.image))) == {0, 255}
    assert decoded(encoded(noise("L"))).image.mode == "L"
    assert decoded(encoded(noise("L")), modes=Modes.COLOUR).image.mode == "RGB"


@pytest.mark.parametrize(("mode", "flat"), [("RGBA", "RGB"), ("LA", "L")])
def test_alpha_is_laid_over_white_or_dropped_where_it_hides_nothing(mode: str, flat: str) -> None:
    picture = noise(mode)
    picture.putalpha(255)
    found = decoded(encoded(picture))
    assert (found.image.mode, found.notes) == (flat, ("alpha that hides nothing, dropped",))
    assert np.array_equal(np.asarray(found.image), np.asarray(picture)[..., 0 if flat == "L" else slice(0, 3)])
    picture.putalpha(Image.new("L", SIZE, 0))
    found = decoded(encoded(picture))
    assert found.notes == ("alpha, laid over white",)
    assert np.asarray(found.image).min() == 255
    plain = decoded(encoded(picture), modes=Modes.PLAIN_RGB)
    assert np.array_equal(np.asarray(plain.image), np.asarray(picture.convert("RGB")))


def test_a_transparent_palette_entry_counts_as_alpha() -> None:
    palette = Image.new("P", (4, 1))
    palette.putpalette([0, 0, 0, 200, 10, 10])
    palette.putdata([0, 1, 0, 1])
    found = decoded(encoded(palette, transparency=0))
    assert found.notes == ("alpha, laid over white",)
    assert np.asarray(found.image)[0].tolist() == [[255] * 3, [200, 10, 10]] * 2


def test_sixteen_bit_is_stretched_from_darkest_to_brightest() -> None:
    values = np.array([[1000, 1001, 3000], [5000, 2000, 1000]], dtype=np.uint16)
    for kind in ("PNG", "TIFF"):
        found = decoded(encoded(Image.fromarray(values), kind))
        assert (found.stored_mode[:1], found.image.mode) == ("I", "L")
        assert found.notes == ("more than 8 bits, stretched to 8",)
        assert np.asarray(found.image).tolist() == [[0, 0, 128], [255, 64, 0]]
    assert decoded(encoded(Image.fromarray(values)), modes=Modes.AS_STORED).image.mode == "I;16"
    plain = decoded(encoded(Image.fromarray(values)), modes=Modes.PLAIN_RGB)
    assert np.asarray(plain.image).min() == 255  # cut off, as the published programs do
    flat = decoded(encoded(Image.fromarray(np.full((3, 3), 77, dtype=np.uint16))))
    assert np.asarray(flat.image).max() == 0


def test_float_pixels_that_are_not_finite_are_refused() -> None:
    values = np.array([[0.25, 0.75], [0.5, np.nan]], dtype=np.float32)
    with pytest.raises(MedhebError, match="row 7: holds pixels that are no finite numbers"):
        decoded(encoded(Image.fromarray(values), "TIFF"))
    values[1, 1] = 1.25
    assert np.asarray(decoded(encoded(Image.fromarray(values), "TIFF")).image).tolist() == [[0, 128], [64, 255]]


def test_pannuke_keeps_its_modes_and_turns_others_to_rgb() -> None:
    for picture in (noise("L"), noise("LA"), noise("RGBA"), noise().quantize(9), noise("L").convert("1")):
        found = decoded(encoded(picture), modes=Modes.PANNUKE)
        assert (found.image.mode, found.notes) == (picture.mode, ())
    deep = Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8))
    assert decoded(encoded(deep), modes=Modes.PANNUKE).image.mode == "I;16"
    assert decoded(encoded(noise("CMYK"), "TIFF"), modes=Modes.PANNUKE).image.mode == "RGB"


def test_the_first_of_several_frames_is_taken() -> None:
    frames = [Image.new("L", SIZE, value) for value in (9, 99, 199)]
    content = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    found = decoded(content)
    assert found.notes == ("several frames, the first is taken",)
    assert np.asarray(found.image).max() == 9


def test_arrays_and_masks() -> None:
    assert to_array(noise()).shape == (16, 24, 3)
    assert to_array(noise("L")).shape == (16, 24)
    with pytest.raises(ValueError, match="mode RGBA has no 8 bit"):
        to_array(noise("RGBA"))
    values = np.array([[0, 1, 255, 256]], dtype=np.uint16)
    assert to_mask(Image.fromarray(values)).tolist() == [[False, True, True, True]]
    assert to_mask(Image.fromarray(values.astype(np.uint8)), 127).tolist() == [[False, False, True, False]]
    assert to_mask(Image.new("1", (1, 1), 1)).tolist() == [[True]]
    assert to_mask(Image.new("RGB", (1, 1), (0, 0, 9))).tolist() == [[True]]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP", "JPEG2000"])
@pytest.mark.parametrize("truncated", ["refuse", "fill"])
def test_damaged_bytes_are_decoded_or_refused_but_never_crash(kind: str, truncated: str) -> None:
    dice = random.Random(f"{kind} {truncated}")
    whole = encoded(noise(), kind)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        content = bytes(damaged[: dice.randrange(1, len(damaged) + 1)] if dice.random() < 0.3 else damaged)
        try:
            decoded(content, truncated=truncated)
        except MedhebError as error:
            assert str(error).startswith("a.parquet, row 7: ")  # noqa: PT017 - the point is that nothing else raises
            refused += 1
    assert refused > 0
