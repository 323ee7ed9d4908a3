"""Atomic writes: whole or not at all, and nothing left behind."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from medheb.core.files import atomic_folder, atomic_open, remove_leftovers, write_json, write_text


def test_error_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(TypeError), atomic_open(target) as stream:
        stream.write("not bytes")  # type: ignore[arg-type]
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "images"
    for name in ("first", "second"):
        with atomic_folder(target) as staging:
            (staging / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["second"]
    assert list(tmp_path.iterdir()) == [target]


def test_error_while_filling_keeps_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "images"
    with atomic_folder(target) as staging:
        (staging / "kept").write_text("kept")
    with pytest.raises(FileNotFoundError), atomic_folder(target) as staging:
        (staging / "no folder" / "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["kept"]


def test_killed_writer_leaves_the_old_file_and_a_removable_part(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "old")
    script = f"""
        import os, signal
        from pathlib import Path
        from medheb.core.files import atomic_open
        with atomic_open(Path({str(target)!r})) as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert target.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    assert remove_leftovers(tmp_path) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_json_is_the_same_whatever_the_key_order(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"b": 1, "a": "ü"})
    write_json(tmp_path / "b", {"a": "ü", "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "c", {"a": float("nan")})
    assert not (tmp_path / "c").exists()
