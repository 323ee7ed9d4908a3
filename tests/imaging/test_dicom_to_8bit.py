"""Radiographs from DICOM: the rendering against pydicom's own, every encoding, faults of real archives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from make_radiographs import SECRET, compressed, dataset, encapsulated, ramp, table, written
from pydicom import uid
from pydicom.dataset import Dataset
from pydicom.encaps import generate_frames
from pydicom.pixels import apply_modality_lut, apply_voi_lut

from medheb.core.errors import MedhebError
from medheb.imaging.dicom_pixels import decode, read_header
from medheb.imaging.radiograph_dicom import RADIOGRAPHS, Radiograph, facts_of, read_radiograph

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "2d"
CODECS = [
    uid.RLELossless,
    uid.JPEG2000Lossless,
    uid.JPEGLSLossless,
    uid.JPEGLossless,
    uid.JPEGLosslessSV1,
]


@pytest.fixture(autouse=True)
def _no_warning_escapes(recwarn: pytest.WarningsRecorder) -> Any:
    yield
    assert [str(warning.message) for warning in recwarn if "pydicom" in str(warning.filename)] == []


def rendered(folder: Path, made: Dataset) -> Radiograph:
    return read_radiograph(written(folder / "a.dicom", made))


def by_pydicom(path: Path, ends: tuple[float, float]) -> np.ndarray:
    """pydicom's pixels, look-up tables and window, scaled from ``ends`` to 0..255 and inverted where white is low."""
    header = pydicom.dcmread(path)
    values = apply_voi_lut(apply_modality_lut(header.pixel_array, header), header)
    unit = np.clip((values.astype(np.float64) - ends[0]) / (ends[1] - ends[0]), 0, 1)
    grey: np.ndarray = 255 * unit
    return 255 - grey if header.PhotometricInterpretation == "MONOCHROME1" else grey


def is_rounded(picture: np.ndarray, exact: np.ndarray) -> bool:
    """Every pixel is the whole number next to its exact grey; at a half, either one."""
    return bool(np.abs(picture - exact).max() <= 0.5 + 1e-9)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize(
    ("bits", "signed"), [(8, False), (10, False), (12, True), (14, False), (15, False), (16, True)]
)
@pytest.mark.parametrize(
    ("slope", "intercept"), [(None, None), (1, 0), (0.37, -12.5), (2, -1024)], ids=["none", "identity", "broken", "ct"]
)
@pytest.mark.parametrize("function", [None, "LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_windows_are_those_of_pydicom(
    tmp_path: Path,
    photometric: str,
    bits: int,
    signed: bool,
    slope: float | None,
    intercept: float | None,
    function: Any,
) -> None:
    values = ramp(bits, signed)
    line = (slope if slope is not None else 1.0), (intercept if intercept is not None else 0.0)
    shown = values.astype(np.float64) * line[0] + line[1]
    centre, width = float(np.percentile(shown, 60)), float(np.ptp(shown) * 0.6)
    elements: dict[str, Any] = {"WindowCenter": f"{centre:.6g}", "WindowWidth": f"{width:.6g}"}
    if slope is not None:
        elements |= {"RescaleSlope": str(slope), "RescaleIntercept": str(intercept)}
    if function is not None:
        elements["VOILUTFunction"] = function
    path = written(tmp_path / "a.dicom", dataset(values, bits, PhotometricInterpretation=photometric, **elements))
    ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    expected = by_pydicom(path, (ends[0] * line[0] + line[1], ends[1] * line[0] + line[1]))
    found = read_radiograph(path)
    assert (found.contrast, found.bits_stored, found.notes) == ("window", bits, ())
    assert np.ptp(expected) > 100
    assert is_rounded(found.picture, expected)


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("deep", [8, 12, 16])
def test_look_up_tables_are_those_of_pydicom_and_go_before_windows(tmp_path: Path, photometric: str, deep: int) -> None:
    entries = [(index * index) % (1 << deep) for index in range(300)]
    made = dataset(ramp(10), 10, PhotometricInterpretation=photometric, WindowCenter="5", WindowWidth="9")
    made.VOILUTSequence = table(entries, 400, deep)
    path = written(tmp_path / "a.dicom", made)
    found = read_radiograph(path)
    assert found.contrast == "VOI LUT"
    assert is_rounded(found.picture, by_pydicom(path, (0, (1 << deep) - 1)))


def test_modality_tables_are_those_of_pydicom(tmp_path: Path) -> None:
    entries = [(1000 * index) % 60000 for index in range(200)]
    made = dataset(ramp(8), 8, WindowCenter="20000", WindowWidth="30000")
    made.ModalityLUTSequence = table(entries, 20, 16)
    path = written(tmp_path / "a.dicom", made)
    assert is_rounded(read_radiograph(path).picture, by_pydicom(path, (0, 65535)))


def test_only_the_first_of_several_windows_counts(tmp_path: Path) -> None:
    values = ramp(12)
    several = rendered(tmp_path, dataset(values, 12, WindowCenter=["900", "7"], WindowWidth=["1200", "2"]))
    assert np.array_equal(
        several.picture, rendered(tmp_path, dataset(values, 12, WindowCenter="900", WindowWidth="1200")).picture
    )


def test_without_a_window_the_picture_goes_from_its_smallest_to_its_largest_value(tmp_path: Path) -> None:
    values = np.array([[100, 150], [200, 300]], dtype=np.uint16)
    found = rendered(tmp_path, dataset(values, 12))
    assert found.picture.tolist() == [[0, 64], [128, 255]]
    assert (found.contrast, found.notes) == ("smallest to largest", ("no window",))
    inverted = rendered(tmp_path, dataset(values, 12, PhotometricInterpretation="MONOCHROME1"))
    assert inverted.picture.tolist() == [[255, 191], [127, 0]]
    assert inverted.inverted
    falling = rendered(tmp_path, dataset(values, 12, RescaleSlope="-1", RescaleIntercept="0"))
    assert falling.picture.tolist() == [[255, 191], [128, 0]]


@pytest.mark.parametrize(
    ("centre", "width", "function", "note"),
    [
        ("100", "0", None, "impossible window"),
        ("100", "-5", None, "impossible window"),
        ("100", "0.5", None, "impossible window"),
        ("100", "0", "LINEAR_EXACT", "impossible window"),
        ("100", "50", "GAMMA", "impossible window"),
        ("", "50", None, "impossible window"),
        ("", "", None, "no window"),
        ("9000", "10", None, "window leaves one grey only, not applied"),
    ],
)
def test_windows_that_cannot_be_used_are_replaced_and_told(
    tmp_path: Path, centre: str, width: str, function: str | None, note: str
) -> None:
    made = dataset(ramp(12), 12, WindowCenter=centre, WindowWidth=width)
    if function:
        made.VOILUTFunction = function
    found = rendered(tmp_path, made)
    assert np.array_equal(found.picture, rendered(tmp_path, dataset(ramp(12), 12)).picture)
    assert (found.contrast, found.notes) == ("smallest to largest", (note,))


def test_a_window_of_one_value_is_a_step(tmp_path: Path) -> None:
    values = np.array([[9, 10], [11, 12]], dtype=np.uint8)
    found = rendered(tmp_path, dataset(values, WindowCenter="11", WindowWidth="1"))
    assert found.picture.tolist() == [[0, 0], [255, 255]]


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
@pytest.mark.parametrize("limits", [(4000, 4095), (4095, 4000)])
def test_padding_is_background_and_no_part_of_the_contrast(
    tmp_path: Path, photometric: str, limits: tuple[int, int]
) -> None:
    values = np.array([[100, 150, 4095], [200, 300, 4000]], dtype=np.uint16)
    found = rendered(
        tmp_path,
        dataset(
            values,
            12,
            PhotometricInterpretation=photometric,
            PixelPaddingValue=limits[0],
            PixelPaddingRangeLimit=limits[1],
        ),
    )
    expected = [[0, 64, 0], [128, 255, 0]] if photometric == "MONOCHROME2" else [[255, 191, 0], [127, 0, 0]]
    assert found.picture.tolist() == expected
    assert found.padding == 2


def test_padding_of_signed_pixels_written_without_a_sign(tmp_path: Path) -> None:
    made = dataset(np.array([[-2000, 0], [50, 100]], dtype=np.int16), 16)
    made.add_new("PixelPaddingValue", "US", 63536)
    found = rendered(tmp_path, made)
    assert (found.padding, found.picture.tolist()) == (1, [[0, 0], [128, 255]])


def test_bits_above_those_stored_are_not_looked_at(tmp_path: Path) -> None:
    values = ramp(12)
    clean = rendered(tmp_path, dataset(values, 12, WindowCenter="2000", WindowWidth="3000"))
    overlay = (values | 0x7000).astype(np.uint16)
    assert np.array_equal(
        rendered(tmp_path, dataset(overlay, 12, WindowCenter="2000", WindowWidth="3000")).picture, clean.picture
    )
    signed = ramp(12, signed=True)
    bare = (signed.view(np.uint16) & 0x0FFF).view(np.int16)
    assert np.array_equal(
        rendered(tmp_path, dataset(bare, 12)).picture, rendered(tmp_path, dataset(signed, 12)).picture
    )


@pytest.mark.parametrize("syntax", CODECS, ids=lambda syntax: syntax.keyword)
@pytest.mark.parametrize(("bits", "signed"), [(8, False), (12, False), (16, False), (12, True), (16, True)])
def test_every_lossless_encoding_gives_the_stored_values(
    tmp_path: Path, syntax: uid.UID, bits: int, signed: bool
) -> None:
    values = ramp(bits, signed)
    path = written(tmp_path / "a.dicom", compressed(values, syntax, bits))
    stored = decode(read_header(path), path)
    assert (stored.syntax, stored.notes) == (syntax, ())
    assert np.array_equal(stored.values, values)
    assert np.array_equal(read_radiograph(path).picture, rendered(tmp_path, dataset(values, bits)).picture)


@pytest.mark.parametrize(
    "syntax", [uid.ImplicitVRLittleEndian, uid.DeflatedExplicitVRLittleEndian, uid.ExplicitVRBigEndian]
)
def test_every_plain_encoding_gives_the_stored_values(tmp_path: Path, syntax: uid.UID) -> None:
    values = ramp(12)
    made = dataset(values.astype(values.dtype.newbyteorder("<" if syntax.is_little_endian else ">")), 12)
    made.file_meta.TransferSyntaxUID = syntax
    path = written(tmp_path / "a.dicom", made)
    assert np.array_equal(decode(read_header(path), path).values, values)
    assert np.array_equal(read_radiograph(path).picture, rendered(tmp_path, dataset(values, 12)).picture)


def test_lossy_jpeg_of_8_and_12_bit(tmp_path: Path) -> None:
    for bits, syntax in ((8, uid.JPEGBaseline8Bit), (12, uid.JPEGExtended12Bit)):
        path = written(tmp_path / "a.dicom", compressed(ramp(bits), syntax, bits))
        values = decode(read_header(path), path).values.astype(np.int64)
        assert np.abs(values - ramp(bits)).max() <= 12


def test_colour_becomes_rgb(tmp_path: Path) -> None:
    colour = np.random.default_rng(3).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    found = rendered(tmp_path, dataset(colour))
    assert (found.contrast, found.photometric) == ("colour", "RGB")
    assert np.array_equal(found.picture, colour)
    planes = dataset(colour, PlanarConfiguration=1)
    planes.PixelData = np.ascontiguousarray(colour.transpose(2, 0, 1)).tobytes()
    assert np.array_equal(rendered(tmp_path, planes).picture, colour)
    smooth = np.repeat(np.linspace(20, 220, 40, dtype=np.uint8)[:, None, None], 30, axis=1) * np.ones(3, np.uint8)
    smooth[..., 2] = 90
    jpeg = compressed(smooth, uid.JPEGBaseline8Bit, PhotometricInterpretation="YBR_FULL_422")
    assert np.abs(rendered(tmp_path, jpeg).picture.astype(int) - smooth).max() <= 4
    brightness = dataset(np.full((4, 4, 3), [76, 85, 255], dtype=np.uint8), PhotometricInterpretation="YBR_FULL")
    assert rendered(tmp_path, brightness).picture[0, 0].tolist() == [254, 0, 0]


def test_palettes_become_rgb(tmp_path: Path) -> None:
    made = dataset(np.array([[0, 1], [2, 1]], dtype=np.uint8), PhotometricInterpretation="PALETTE COLOR")
    for name, entries in (("Red", [0, 65535, 256]), ("Green", [0, 0, 512]), ("Blue", [65535, 0, 768])):
        setattr(made, f"{name}PaletteColorLookupTableDescriptor", [3, 0, 16])
        setattr(made, f"{name}PaletteColorLookupTableData", np.array(entries, dtype="<u2").tobytes())
    found = rendered(tmp_path, made)
    assert found.picture.tolist() == [[[0, 0, 255], [255, 0, 0]], [[1, 2, 3], [255, 0, 0]]]


@pytest.mark.parametrize("syntax", [*CODECS, uid.JPEGBaseline8Bit], ids=lambda syntax: syntax.keyword)
@pytest.mark.parametrize("named", [None, "1.2.3.4", uid.ExplicitVRLittleEndian])
def test_a_missing_or_wrong_transfer_syntax_is_found_out(tmp_path: Path, syntax: uid.UID, named: str | None) -> None:
    values = ramp(8)
    made = compressed(values, syntax, 8)
    expected = rendered(tmp_path, made).picture
    made.preamble = bytes(128)
    if named is None:
        del made.file_meta.TransferSyntaxUID
    else:
        made.file_meta.TransferSyntaxUID = uid.UID(named)
    path = tmp_path / "a.dicom"
    with path.open("wb") as stream:
        _write_as_it_is(stream, made)
    found = read_radiograph(path)
    assert "transfer syntax missing or wrong, found out from the pixels" in found.notes
    assert np.array_equal(found.picture, expected)


def _write_as_it_is(stream: Any, made: Dataset) -> None:
    """Preamble, file meta and data set without pydicom's checks."""
    from pydicom.filebase import DicomFileLike
    from pydicom.filewriter import write_dataset, write_file_meta_info

    stream.write(bytes(128) + b"DICM")
    write_file_meta_info(stream, made.file_meta, enforce_standard=False)
    inner = DicomFileLike(stream)
    inner.is_little_endian, inner.is_implicit_VR = True, False
    write_dataset(inner, made)


@pytest.mark.parametrize("implicit", [True, False])
def test_plain_pixels_without_a_transfer_syntax_and_without_a_preamble(tmp_path: Path, implicit: bool) -> None:
    values = ramp(12)
    made = dataset(values, 12)
    made.file_meta.TransferSyntaxUID = uid.ImplicitVRLittleEndian if implicit else uid.ExplicitVRLittleEndian
    expected = rendered(tmp_path, made).picture
    bare = tmp_path / "bare.dicom"
    del made.file_meta
    pydicom.dcmwrite(bare, made, implicit_vr=implicit, little_endian=True)
    made.preamble = None
    found = read_radiograph(bare)
    assert np.array_equal(found.picture, expected)
    assert found.notes[0] == "transfer syntax missing or wrong, found out from the pixels"


def test_illegal_identifiers_and_dropped_elements_do_not_matter(tmp_path: Path) -> None:
    values = ramp(12)
    expected = rendered(tmp_path, dataset(values, 12)).picture
    made = dataset(values, 12, Modality=None, HighBit=None)
    with pydicom.config.disable_value_validation():
        made.file_meta.MediaStorageSOPInstanceUID = "d41d8cd98f00b204e9800998ecf8427e"
        made.file_meta.ImplementationClassUID = "1.2.3.4"
        made.SOPInstanceUID = "d41d8cd98f00b204e9800998ecf8427e"
        made.PatientBirthDate = "long ago"
        path = written(tmp_path / "a.dicom", made)
    found = read_radiograph(path)
    assert (found.notes, found.laterality) == (("no window",), None)
    assert np.array_equal(found.picture, expected)
    poor = dataset(values, 16, SamplesPerPixel=None, PixelRepresentation=None, PhotometricInterpretation=None)
    del poor.BitsStored
    assert rendered(tmp_path, poor).notes[:2] == ("photometric interpretation not given", "bits stored not given")


def test_side_and_view_are_kept_and_nothing_that_tells_the_patient(tmp_path: Path) -> None:
    found = rendered(tmp_path, dataset(ramp(8), ImageLaterality="L", ViewPosition="MLO", Modality="MG"))
    assert (found.laterality, found.view) == ("left", "MLO")
    assert rendered(tmp_path, dataset(ramp(8), Laterality="R")).laterality == "right"
    odd = rendered(tmp_path, dataset(ramp(8), Laterality="X", ViewPosition="JANE ROE"))
    assert (odd.laterality, odd.view) == (None, None)
    told = f"{facts_of(odd)} {odd.notes} {odd.photometric}"
    for word in (*SECRET.split("^"), "JANE", "4711"):
        assert word not in told


def test_a_presentation_shape_is_not_applied_a_second_time(tmp_path: Path) -> None:
    values = ramp(8)
    plain = rendered(tmp_path, dataset(values, PhotometricInterpretation="MONOCHROME1"))
    shaped = rendered(
        tmp_path, dataset(values, PhotometricInterpretation="MONOCHROME1", PresentationLUTShape="INVERSE")
    )
    assert np.array_equal(plain.picture, shaped.picture)
    odd = rendered(tmp_path, dataset(values, PresentationLUTShape="INVERSE"))
    assert "presentation shape contradicts the photometric interpretation" in odd.notes


def test_raw_data_of_a_detector_is_noted(tmp_path: Path) -> None:
    raw = rendered(tmp_path, dataset(ramp(12), 12, Modality="MG", PresentationIntentType="FOR PROCESSING"))
    assert raw.notes == ("no window", "raw data of the detector, not meant to be shown")


def test_pixels_of_32_bit_and_of_floats(tmp_path: Path) -> None:
    wide = np.linspace(0, 4_000_000, 600 * 5).reshape(600, 5).astype(np.uint32)
    found = rendered(tmp_path, dataset(wide, WindowCenter="2000000", WindowWidth="4000001"))
    assert np.array_equal(found.picture[[0, -1]], [[0] * 4 + [0], [254] + [255] * 4]) or found.picture.max() == 255
    assert found.picture[300].mean() == pytest.approx(128, abs=1)
    made = dataset(wide, PixelData=None)
    made.add_new("FloatPixelData", "OF", np.linspace(-1, 1, 3000, dtype=np.float32).tobytes())
    assert (rendered(tmp_path, made).picture.min(), rendered(tmp_path, made).picture.max()) == (0, 255)
    made.FloatPixelData = np.full(3000, np.nan, dtype=np.float32).tobytes()
    with pytest.raises(MedhebError, match="holds pixels that are no finite numbers"):
        rendered(tmp_path, made)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ({"PixelData": None}, "is a DICOM file without pixels"),
        ({"PixelData": b""}, "is a DICOM file without pixels"),
        ({"Modality": "CT"}, "is of modality CT. Accepted: CR, DR, DX, IO, MG, PX, RG"),
        ({"Modality": "JANE ROE"}, "is of modality unknown"),
        ({"Rows": None}, "does not say how many rows and columns it has"),
        ({"Rows": 0}, "declares 66 x 0 pixels"),
        ({"Rows": 60000, "Columns": 60000}, "declares too many pixels: 60000 x 60000, allowed are 80,000,000"),
        ({"SamplesPerPixel": 2}, "declares 66 x 72 pixels of 2 samples"),
        ({"NumberOfFrames": "3"}, "is a film of 3 frames, not one picture"),
        ({"PixelData": ramp(12).tobytes()[:-2]}, "is cut off within its pixels"),
        ({"BitsAllocated": 13}, "has pixels that cannot be decoded"),
        ({"PhotometricInterpretation": "XYZ"}, "cannot be decoded|is neither grey nor a known kind of colour"),
        ({"RescaleSlope": "0", "RescaleIntercept": "0"}, "has RescaleSlope 0"),
        ({"PixelPaddingValue": 0, "PixelPaddingRangeLimit": 4095}, "holds padding only, no picture"),
    ],
)
def test_files_that_give_no_picture_are_refused_by_name(tmp_path: Path, elements: Any, message: str) -> None:
    with pytest.raises(MedhebError, match=message) as caught:
        rendered(tmp_path, dataset(ramp(12), 12, **elements))
    assert str(caught.value).startswith(f"{tmp_path / 'a.dicom'}: ")
    assert "JANE" not in str(caught.value)
    assert caught.value.remedy


def test_other_modalities_are_taken_where_they_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "a.dicom", dataset(ramp(12), 12, Modality="US"))
    assert read_radiograph(path, None).picture.shape == (72, 66)
    assert read_radiograph(path, RADIOGRAPHS | {"US"}).picture.shape == (72, 66)


@pytest.mark.parametrize(
    "content", [b"", b"image_id,x\n", bytes(3000), b"\x89PNG\r\n\x1a\n" + bytes(99), bytes(128) + b"DICM"]
)
def test_files_that_are_not_dicom_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.dicom"
    path.write_bytes(content)
    with pytest.raises(
        MedhebError, match=r"a\.dicom: (is empty \(0 bytes\)|is not a DICOM file|does not say|is a DICOM file without)"
    ):
        read_radiograph(path)
    with pytest.raises(MedhebError, match=r"gone\.dicom: is missing"):
        read_radiograph(tmp_path / "gone.dicom")
    with pytest.raises(MedhebError, match="cannot be read"):
        read_radiograph(tmp_path)


@pytest.mark.parametrize(
    "syntax", [*CODECS, uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit], ids=lambda syntax: syntax.keyword
)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.8])
def test_a_cut_stream_is_refused(tmp_path: Path, syntax: uid.UID, kept: float) -> None:
    bits = 12 if syntax == uid.JPEGExtended12Bit else 8
    made = compressed(ramp(bits), syntax, bits)
    stream = next(generate_frames(made.PixelData, number_of_frames=1))
    with pytest.raises(MedhebError, match="has pixels that cannot be decoded"):
        rendered(tmp_path, encapsulated(made, stream[: max(2, int(len(stream) * kept))], syntax))


@pytest.mark.parametrize("syntax", [uid.JPEG2000Lossless, uid.JPEGLSLossless, uid.JPEGLossless])
def test_a_stream_of_another_size_than_the_header_is_refused(tmp_path: Path, syntax: uid.UID) -> None:
    for change in ({"Rows": 73}, {"Columns": 65}, {"Rows": 66, "Columns": 72}):
        made = compressed(ramp(12), syntax, 12)
        made.update(change)
        with pytest.raises(MedhebError, match=r"cannot be decoded|not to its declared size"):
            rendered(tmp_path, made)


def test_a_film_encoding_has_no_decoder(tmp_path: Path) -> None:
    made = encapsulated(dataset(ramp(8)), b"\x00\x00\x01\xb3" + bytes(90), uid.MPEG2MPML)
    with pytest.raises(MedhebError, match=r"no decoder here reads \(transfer syntax: MPEG2 "):
        rendered(tmp_path, made)


@pytest.mark.parametrize("syntax", [uid.ExplicitVRLittleEndian, *CODECS], ids=lambda syntax: syntax.keyword)
def test_damaged_files_are_rendered_or_refused_but_never_crash(tmp_path: Path, syntax: uid.UID) -> None:
    dice = random.Random(str(syntax))
    values = ramp(12)
    made = dataset(values, 12) if syntax == uid.ExplicitVRLittleEndian else compressed(values, syntax, 12)
    made.WindowCenter, made.WindowWidth = "2000", "3000"
    path = written(tmp_path / "a.dicom", made)
    whole = path.read_bytes()
    refused = 0
    for _ in range(120):
        damaged = bytearray(whole)
        for _ in range(dice.randrange(1, 5)):
            damaged[dice.randrange(128, len(damaged) if dice.random() < 0.5 else 700)] = dice.randrange(256)
        path.write_bytes(damaged[: dice.randrange(200, len(damaged))] if dice.random() < 0.2 else damaged)
        try:
            read_radiograph(path)
        except MedhebError as error:
            assert str(error).startswith(f"{path}: ")  # noqa: PT017 - the point is that nothing else raises
            refused += 1
    assert refused > 0


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the real samples do not lie beside the repository")
@pytest.mark.parametrize(
    ("name", "ends"), [("RG1_J2KI.dcm", (0, 32767)), ("RG3_J2KI.dcm", (0, 1023))], ids=["chest", "limb"]
)
def test_real_radiographs_are_rendered_as_pydicom_does(name: str, ends: tuple[int, int]) -> None:
    found = read_radiograph(SAMPLES / name)
    assert found.inverted
    assert is_rounded(found.picture, by_pydicom(SAMPLES / name, ends))


@pytest.mark.parametrize("missing", [40, 200])
def test_a_file_that_ends_within_its_compressed_pixels_is_called_cut_off(tmp_path: Path, missing: int) -> None:
    path = written(tmp_path / "x.dcm", compressed(ramp(), uid.JPEGLSLossless))
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(MedhebError, match=r"x\.dcm: is cut off within its pixels"):
        read_radiograph(path)
