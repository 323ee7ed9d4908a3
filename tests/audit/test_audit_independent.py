"""What docs/audit.md prints is what a stranger runs: its commands and its script, taken from the page as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_bench import Bench, edit, encode, folder_for_file, pixels

from medheb.audit.verdicts import EXIT_CODES, EXIT_UNUSABLE, VERDICTS
from medheb.core.digests import content_digest, merkle_root, sha256_bytes

DOCUMENT = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
A = "2D_Images/alpha/a.png"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, flags=re.MULTILINE | re.DOTALL)


def check(bench: Bench, source: str, folder: Path, audit: Path | None = None) -> tuple[int, str]:
    (script,) = blocks("python")
    (folder / "check.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", "check.py", str(bench.layout.benchmark), str(audit or bench.layout.audit), source],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


def shell(bench: Bench, number: int) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-euc", blocks("sh")[number]],
        env={
            **os.environ,
            "BENCHMARK": str(bench.layout.benchmark),
            "AUDIT": str(bench.layout.audit),
            "SOURCE": "alpha",
        },
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_script_is_short_and_independent() -> None:
    (script,) = blocks("python")
    assert len(script.splitlines()) <= 40
    assert "medheb" not in script.lower()


def test_script_has_the_same_digests_for_every_kind_of_file() -> None:
    (script,) = blocks("python")
    functions: dict[str, Any] = {}
    exec(script.partition("sys.excepthook")[0], functions)
    samples = {
        "a.json": b'{"b": 1, "a": "\xc3\xb6"}',
        "a.jsonl": b'{"b": 1}\n\n[2]\n',
        "a.csv": b"a,b\r\n1,2\r\n",
        "a.npy": b"\r\n\0",
        "a.PNG": encode(pixels(3)),
    }
    for name, data in samples.items():
        assert functions["content"](name, data) == content_digest(Path(name), data)
    for size in range(9):
        tree = {f"ö{number}": sha256_bytes(bytes([number])) for number in range(size)}
        assert functions["root"](tree) == merkle_root(tree)


@pytest.mark.parametrize("source", ["alpha", "delta"])
def test_script_accepts_what_was_recorded(whole: Bench, source: str, tmp_path: Path) -> None:
    code, text = check(whole, source, tmp_path)
    lines = text.splitlines()
    assert code == 0
    assert all(line.startswith("IDENTICAL ") for line in lines[:-2])
    assert [line.split()[0] for line in lines[-2:]] == ["L1", "L2"]
    assert all(line.endswith(" as stated") for line in lines[-2:])


def test_script_tells_another_encoder_from_another_picture(whole: Bench, tmp_path: Path) -> None:
    whole.image("a.png").write_bytes(encode(pixels(100 * ord("a")), 1))
    code, text = check(whole, "alpha", tmp_path)
    assert (code, f"EQUIVALENT '{A}'" in text, text.count("DIFFERS")) == (0, True, 1)
    whole.image("a.png").write_bytes(encode(pixels(1)))
    code, text = check(whole, "alpha", tmp_path)
    assert (code, f"MISMATCH '{A}'" in text, text.count("DIFFERS")) == (1, True, 2)
    whole.image("a.png").unlink()
    code, text = check(whole, "alpha", tmp_path)
    assert (code, f"MISSING '{A}'" in text) == (1, True)


def whole_png_but_its_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def link_out_of_the_tree(path: Path) -> None:
    path.rename(path.parents[3] / "away.png")
    path.symlink_to(path.parents[3] / "away.png")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "verdict"),
    [
        (whole_png_but_its_end, "UNREADABLE (ValueError)"),
        (lambda path: path.write_bytes(b""), "UNREADABLE (UnidentifiedImageError)"),
        (link_out_of_the_tree, "UNREADABLE (no file of the tree)"),
        (folder_for_file, "UNREADABLE (no file of the tree)"),
        (pipe, "UNREADABLE (no file of the tree)"),
    ],
)  # fmt: skip
def test_script_names_what_is_no_whole_file_of_the_tree(
    whole: Bench, tmp_path: Path, damage: Callable[[Path], object], verdict: str
) -> None:
    damage(whole.image("a.png"))
    code, text = check(whole, "alpha", tmp_path)
    assert (code, text.splitlines().count(f"{verdict} '{A}'"), text.count("DIFFERS")) == (1, 1, 2)


def test_script_follows_no_link_below_the_image_folder(whole: Bench, tmp_path: Path) -> None:
    folder = whole.image("größe")
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "away")
    code, text = check(whole, "alpha", tmp_path)
    assert (code, text.count("UNREADABLE (no file of the tree)")) == (1, 1)
    folder.unlink()
    (tmp_path / "away").rename(folder)
    images = whole.layout.benchmark / "2D_Images" / "alpha"
    images.rename(tmp_path / "disk")
    images.symlink_to(tmp_path / "disk")
    assert check(whole, "alpha", tmp_path)[0] == 0, "the folder itself may lie on another disk"


def test_script_refuses_a_path_that_leaves_the_tree(whole: Bench, tmp_path: Path) -> None:
    record = whole.layout.audit / "alpha" / "digests.json"
    (whole.layout.benchmark.parent / "a.png").write_bytes(whole.image("a.png").read_bytes())
    edit(record, f'"{A}"', '"2D_Images/alpha/../../../a.png"')
    code, text = check(whole, "alpha", tmp_path)
    assert code == 1
    assert "IDENTICAL '2D_Images/alpha/../../../a.png'" not in text


def test_script_says_why_a_source_cannot_be_checked(recorded: Bench, tmp_path: Path) -> None:
    for source, says in (
        ("beta", "cannot be checked: not-built, index: no network"),
        ("gamma", "cannot be checked: built, but it shows roots alone"),
        ("nothing", "cannot be checked: FileNotFoundError"),
    ):
        code, text = check(recorded, source, tmp_path)
        assert (code, len(text.splitlines())) == (1, 1)
        assert text.startswith(says)
    assert check(recorded, "alpha", tmp_path, tmp_path / "nowhere")[0] == 1
    (recorded.layout.audit / "roots.json").write_text("{")
    assert check(recorded, "alpha", tmp_path)[1].startswith("cannot be checked: JSONDecodeError")


def test_coreutils_find_changes_and_extra_files(whole: Bench) -> None:
    whole.image("new\nline.png").unlink()
    sums = whole.layout.audit / "alpha" / "SHA256SUMS"
    sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if line[0] != "\\"))
    assert shell(whole, 0) == (0, "")
    assert shell(whole, 1) == (0, "2D_Images/alpha/d1.png\n2D_Images/alpha/d2.png\n")
    whole.image("größe/extra.png").write_bytes(b"x")
    assert shell(whole, 1)[1].endswith("größe/extra.png\n")
    whole.image("a.png").write_bytes(b"x")
    assert shell(whole, 0) == (1, f"{A}: FAILED\n")


def test_document_explains_every_verdict_and_exit_code() -> None:
    for verdict in VERDICTS:
        assert f"| {verdict} |" in DOCUMENT
    for code in {*EXIT_CODES.values(), EXIT_UNUSABLE}:
        assert f"| {code} |" in DOCUMENT
