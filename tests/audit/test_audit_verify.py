"""Verifying files: every kind of damage gets its verdict, names the file, and never a traceback."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from audit_bench import (
    FOLDERS,
    A,
    B,
    Bench,
    encode,
    findings,
    folder_for_file,
    only,
    pixels,
    unit,
)
from PIL import Image

from medheb.audit import measure as measure_module
from medheb.audit.measure import Measured, measure
from medheb.audit.present import as_text, printable
from medheb.audit.verdicts import (
    EXIT_MISMATCH,
    EXIT_MISSING_OR_EXTRA,
    EXIT_OK,
    EXIT_UNREADABLE,
    CheckedLevel,
    Finding,
)
from medheb.audit.verify import verify
from medheb.core.files import write_json


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_untouched_run_is_identical(whole: Bench, level: CheckedLevel) -> None:
    verification = verify(whole.run, level=level)
    assert (verification.verdict, verification.exit_code) == ("IDENTICAL", EXIT_OK)
    assert unit(verification, "alpha").counts == {"IDENTICAL": 6}
    assert unit(verification, "gamma").counts == {"IDENTICAL": 2}
    assert unit(verification, "task JSONs").counts == {"IDENTICAL": 3}
    assert unit(verification, "scores").counts == {"IDENTICAL": 6}
    assert unit(verification, "embedded inputs").counts == {"IDENTICAL": 6}
    assert not any(unit.findings for unit in verification.units)


def test_verify_writes_nothing(whole: Bench) -> None:
    root = whole.layout.benchmark.parent
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    verify(whole.run)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_one_pixel_is_a_mismatch_that_names_the_file(whole: Bench) -> None:
    path = whole.image("a.png")
    with Image.open(path) as image:
        image.putpixel((3, 4), (image.getpixel((3, 4)) + 1) % 256)  # type: ignore[operator]
        image.save(path, compress_level=6)
    verification = verify(whole.run)
    assert only(verification) == Finding(name=A, verdict="MISMATCH", reason="pixels differ")
    assert (verification.verdict, verification.exit_code) == ("MISMATCH", EXIT_MISMATCH)
    assert f"MISMATCH          {A}: pixels differ" in as_text(verification)


def test_another_compression_level_is_equivalent_and_named(whole: Bench) -> None:
    path = whole.image("a.png")
    with Image.open(path) as image:
        image.load()
        image.save(path, compress_level=1)
    verification = verify(whole.run)
    found = only(verification)
    assert (found.name, found.verdict) == (A, "EQUIVALENT")
    assert "another encoder or compression level" in found.reason
    assert (verification.verdict, verification.exit_code) == ("EQUIVALENT", EXIT_OK)
    text = as_text(verification)
    assert f"EQUIVALENT        {A}" in text
    assert "Image libraries: as recorded" in text
    only_bytes = verify(whole.run, level="L1")
    assert only(only_bytes).verdict == "MISMATCH"
    assert "level L2 tells" in only(only_bytes).reason


def test_equivalent_names_the_recorded_encoder(whole: Bench) -> None:
    path = whole.layout.audit / "environment.json"
    content = json.loads(path.read_bytes())
    content["encoders"]["zlib"] = "0.9.9"
    write_json(path, content)
    whole.image("a.png").write_bytes(encode(pixels(100 * ord("a")), 1))
    assert "zlib 0.9.9 recorded, " in as_text(verify(whole.run))
    path.write_text("[]")
    assert verify(whole.run).encoders["zlib"].startswith("unknown recorded")


def test_json_in_another_layout_is_equivalent(whole: Bench) -> None:
    whole.image("notes.json").write_text('{ "a": [1,2], "b": 1}\n')
    assert only(verify(whole.run)).reason == "bytes differ, content is equal: written in another layout"
    whole.image("notes.json").write_text('{ "a": [2,1], "b": 1}\n')
    assert only(verify(whole.run)).reason == "content differs"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def break_checksum(path: Path) -> None:
    """Change the checksum of the pixel data, which lies before the end mark; the pixels still decode."""
    content = bytearray(path.read_bytes())
    content[-14] ^= 1
    path.write_bytes(bytes(content))


def pipe_for_file(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_out(path: Path) -> None:
    outside = path.parents[4] / "outside.png"
    shutil.move(path, outside)
    path.symlink_to(outside)


@pytest.mark.parametrize("level", ["L1", "L2"])
@pytest.mark.parametrize(
    ("damage", "at_l1", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "MISMATCH", "cannot be decoded"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "MISMATCH", "ends before its end mark"),
        (lambda path: path.write_bytes(path.read_bytes()[:-12]), "MISMATCH", "ends before its end mark"),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), "MISMATCH", "cannot be decoded"),
        (flip, "MISMATCH", "cannot be decoded"),
        (break_checksum, "MISMATCH", "cannot be decoded"),
        (lambda path: path.write_bytes(b""), "MISMATCH", "is empty"),
        (lambda path: path.write_bytes(b"<html>quota exceeded</html>"), "MISMATCH", "not an image"),
        (folder_for_file, "UNREADABLE", "is a folder where a file is recorded"),
        (pipe_for_file, "UNREADABLE", "is not a regular file"),
        (link_out, "UNREADABLE", "is a symbolic link"),
    ],
    ids=["cut", "cut-1", "cut-12", "head", "flipped", "checksum", "empty", "html", "folder", "pipe", "link"],
)
def test_unreadable_file(
    whole: Bench, damage: Callable[[Path], object], at_l1: str, reason: str, level: CheckedLevel
) -> None:
    damage(whole.image("a.png"))
    verification = verify(whole.run, level=level)
    found = only(verification)
    assert found.name == A
    if level == "L1":
        assert found.verdict == at_l1
    else:
        assert found.verdict == "UNREADABLE"
        assert reason in found.reason
        assert "0x" not in found.reason
        assert verification.exit_code == EXIT_UNREADABLE


def test_file_that_becomes_a_link_after_it_was_listed_is_not_followed(whole: Bench) -> None:
    link_out(whole.image("a.png"))
    found = measure(whole.layout.benchmark, A, "L2")
    assert not isinstance(found, Measured)
    assert found.reason == f"cannot be read: {os.strerror(errno.ELOOP)}"


def test_symbolic_link_to_a_folder_outside_is_not_entered(whole: Bench) -> None:
    folder = whole.image("größe")
    outside = whole.layout.benchmark.parent / "outside"
    shutil.move(folder, outside)
    folder.symlink_to(outside)
    found = findings(verify(whole.run))
    assert found["2D_Images/alpha/größe/Ω.png"].verdict == "MISSING"
    assert found["2D_Images/alpha/größe"].verdict == "EXTRA"
    assert "symbolic link" in found["2D_Images/alpha/größe"].reason


def test_image_folder_may_lie_on_another_disk(whole: Bench) -> None:
    folder = whole.layout.benchmark / FOLDERS["gamma"]
    shutil.move(folder, whole.layout.benchmark.parent / "big")
    folder.symlink_to(whole.layout.benchmark.parent / "big")
    assert verify(whole.run).exit_code == EXIT_OK


def test_swapped_files_say_whose_content_they_hold(whole: Bench) -> None:
    first, second = whole.image("a.png"), whole.image("b.png")
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    found = findings(verify(whole.run))
    assert (found[A].verdict, found[A].reason) == ("MISMATCH", f"holds what is recorded for {B}")
    assert (found[B].verdict, found[B].reason) == ("MISMATCH", f"holds what is recorded for {A}")


def test_renamed_duplicated_extra_and_leftover_files(whole: Bench) -> None:
    whole.image("a.png").rename(whole.image("A.PNG"))
    shutil.copy(whole.image("b.png"), whole.image("copy.png"))
    whole.image(".c.png.part.host.1.abc").write_bytes(b"half")
    whole.image("größe/new.txt").write_text("x")
    verification = verify(whole.run)
    found = findings(verification)
    assert found[A].verdict == "MISSING"
    assert found[A].reason.endswith("its bytes lie in 2D_Images/alpha/A.PNG")
    assert found["2D_Images/alpha/A.PNG"].verdict == "EXTRA"
    assert found["2D_Images/alpha/copy.png"].reason == f"is not recorded; holds what is recorded for {B}"
    assert "temporary leftover" in found["2D_Images/alpha/.c.png.part.host.1.abc"].reason
    assert found["2D_Images/alpha/größe/new.txt"].verdict == "EXTRA"
    assert verification.exit_code == EXIT_MISSING_OR_EXTRA
    # delta shares the folder: what is nobody's is extra to both.
    assert findings(verification, "delta").keys() == found.keys() - {A}


def test_names_with_line_ends_terminal_codes_and_undecodable_bytes(whole: Bench) -> None:
    whole.image("new\nline.png").unlink()
    whole.image("\x1b[31mred.png").write_bytes(b"x")
    folder = whole.image(os.fsdecode(b"bad\xff"))
    folder.mkdir()
    (folder / os.fsdecode(b"\xfe.png")).write_bytes(b"x")
    verification = verify(whole.run)
    found = findings(verification)
    assert found["2D_Images/alpha/new\nline.png"].verdict == "MISSING"
    assert found["2D_Images/alpha/bad\\xff/\\xfe.png"].verdict == "EXTRA"
    text = as_text(verification)
    assert "2D_Images/alpha/new\\nline.png" in text
    assert "\\x1b[31mred.png" in text
    assert "\x1b" not in text


def test_printable_keeps_letters_of_all_scripts() -> None:
    assert printable("größe Ω 心") == "größe Ω 心"
    assert printable("a\tb\r\u2028\x00") == "a\\tb\\r\\u2028\\x00"


def test_folder_that_cannot_be_listed(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(place: bytes | Path) -> object:
        if isinstance(place, bytes) and place.endswith("größe".encode()):
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr(os, "scandir", scandir)
    found = findings(verify(whole.run))
    assert found["2D_Images/alpha/größe"].verdict == "UNREADABLE"
    assert found["2D_Images/alpha/größe/Ω.png"].reason == "lies in a folder that cannot be listed"


def test_file_that_cannot_be_opened(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(place: bytes, flags: int) -> int:
        if place.endswith(b"/a.png"):
            raise PermissionError(13, "Permission denied")
        return real(place, flags)

    monkeypatch.setattr(measure_module.os, "open", refuse)
    found = only(verify(whole.run))
    assert (found.name, found.verdict, found.reason) == (A, "UNREADABLE", "cannot be read: Permission denied")


def test_file_that_changes_while_it_is_read(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fstat
    calls: list[int] = []

    def growing(handle: int) -> os.stat_result:
        calls.append(handle)
        if len(calls) == 2:
            with whole.image("a.png").open("ab") as stream:
                stream.write(b"more")
        return real(handle)

    monkeypatch.setattr(measure_module.os, "fstat", growing)
    found = measure(whole.layout.benchmark, A, "L2")
    assert not isinstance(found, Measured)
    assert (found.verdict, found.reason) == (
        "UNREADABLE",
        "changed while it was read; verify again when no job runs",
    )


def test_file_that_is_replaced_while_it_is_read(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.lstat

    def replace(place: bytes) -> os.stat_result:
        other = whole.image("other")
        other.write_bytes(b"new")
        other.replace(whole.image("a.png"))
        return real(place)

    monkeypatch.setattr(measure_module.os, "lstat", replace)
    found = measure(whole.layout.benchmark, A, "L2")
    assert not isinstance(found, Measured)
    assert found.reason == "was replaced while it was read; verify again when no job runs"


def test_file_that_vanishes(whole: Bench) -> None:
    found = measure(whole.layout.benchmark, "2D_Images/alpha/gone.png", "L2")
    assert not isinstance(found, Measured)
    assert (found.verdict, found.reason) == ("MISSING", "vanished while the audit ran")


def test_missing_image_folder(whole: Bench) -> None:
    shutil.rmtree(whole.layout.benchmark / FOLDERS["alpha"])
    verification = verify(whole.run, "alpha")
    assert unit(verification, "alpha").counts == {"MISSING": 6}
    assert verification.exit_code == EXIT_MISSING_OR_EXTRA
