"""NumPy files: piece by piece, no pickles, every fault by name."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npy, open_npz


def save(path: Path, array: np.ndarray) -> Path:
    np.save(path, array, allow_pickle=True)
    return path


@pytest.mark.parametrize("dtype", ["uint8", "int16", ">i2", "float32", "float64", "bool", "int64"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_entries_keep_values_and_type(tmp_path: Path, dtype: str, order: str) -> None:
    array = np.asarray(np.arange(60).reshape(5, 3, 4) % 7, dtype=dtype, order=order)
    stored = open_npy(save(tmp_path / "a.npy", array))
    assert (stored.shape, stored.count, stored.axis) == ((5, 3, 4), 5, 0)
    assert stored.dtype == np.dtype(dtype).newbyteorder("=")
    for index, entry in stored.slices([4, 0, 4]):
        assert entry.dtype == stored.dtype
        assert np.array_equal(entry, array[index])
    whole = stored.array()
    assert np.array_equal(whole, array)
    assert whole.dtype == (np.float32 if dtype == "float64" else stored.dtype)


def test_four_dimensions_give_volumes(tmp_path: Path) -> None:
    array = np.arange(120, dtype=np.uint8).reshape(2, 3, 4, 5)
    assert [entry.shape for _, entry in open_npy(save(tmp_path / "a.npy", array)).slices()] == [(3, 4, 5)] * 2


@pytest.mark.parametrize("packed", [False, True])
def test_members_of_an_archive_whatever_its_name(tmp_path: Path, packed: bool) -> None:
    images, labels = np.arange(48, dtype=np.uint8).reshape(4, 3, 4), np.array([[1], [0], [1], [0]])
    with (tmp_path / "set.npz?download=1").open("wb") as stream:
        (np.savez_compressed if packed else np.savez)(stream, train_images=images, train_labels=labels)
    members = open_npz(tmp_path / "set.npz?download=1")
    assert list(members) == ["train_images", "train_labels"]
    assert np.array_equal(members["train_images"].array(), images)
    assert [(i, v.tolist()) for i, v in members["train_labels"].slices([2])] == [(2, [1])]
    first, second = members["train_images"].slices(), members["train_images"].slices()
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(first, second, strict=True))


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("evil_was_here"),))


def refusal(path: Path, **caps: int) -> str:
    with pytest.raises(MedhebError) as caught:
        open_npy(path, **caps)
    return str(caught.value)


def test_faults_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = refusal(save(tmp_path / "evil.npy", np.array([Evil()], dtype=object)))
    assert "evil.npy: holds pickled objects, which could run code" in message
    assert not (tmp_path / "evil_was_here").exists()
    (tmp_path / "text.npy").write_text("hello")
    assert "text.npy: is not a NumPy array" in refusal(tmp_path / "text.npy")
    path = save(tmp_path / "header.npy", np.zeros(3))
    path.write_bytes(path.read_bytes().replace(b"{", b"~", 1))
    assert "header.npy: is not a NumPy array" in refusal(path)
    assert "none.npy: does not exist" in refusal(tmp_path / "none.npy")
    (tmp_path / "folder.npy").mkdir()
    assert "folder.npy: cannot be read (Is a directory)" in refusal(tmp_path / "folder.npy")
    assert "holds <U1 values" in refusal(save(tmp_path / "words.npy", np.array(["a"])))
    assert "holds complex64 values" in refusal(save(tmp_path / "complex.npy", np.zeros(3, dtype=np.complex64)))
    assert "has the empty shape ()" in refusal(save(tmp_path / "scalar.npy", np.array(5)))
    assert "has the empty shape (0, 3)" in refusal(save(tmp_path / "empty.npy", np.zeros((0, 3))))
    path = save(tmp_path / "large.npy", np.zeros((10, 10)))
    assert "declares 800 bytes, more than the cap of 799" in refusal(path, max_bytes=799)
    path.write_bytes(path.read_bytes()[:-1])
    assert "large.npy: declares 800 bytes, more than it can hold. Delete it and fetch" in refusal(path)


def test_faults_of_archives_name_the_member(tmp_path: Path) -> None:
    def npz_refusal(path: Path) -> str:
        with pytest.raises(MedhebError) as caught:
            [member.array() for member in open_npz(path).values()]
        return str(caught.value)

    (tmp_path / "text.npz").write_text("hello")
    assert "text.npz: is not a NumPy archive" in npz_refusal(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "none.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "none.npz: holds no NumPy array" in npz_refusal(tmp_path / "none.npz")
    np.savez(tmp_path / "evil.npz", images=np.array([Evil()], dtype=object))
    assert "evil.npz: images.npy: holds pickled objects" in npz_refusal(tmp_path / "evil.npz")
    np.savez_compressed(tmp_path / "cut.npz", images=np.random.default_rng(0).integers(0, 99, (9, 50, 50)))
    content = bytearray((tmp_path / "cut.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "cut.npz").write_bytes(content)
    assert "cut.npz: images.npy: ends or breaks at slice" in npz_refusal(tmp_path / "cut.npz")


PEAK = """
import sys
from pathlib import Path
from medheb.imaging.arrays import open_npz
total = sum(int(entry[0, 0]) for _, entry in open_npz(Path(sys.argv[1]))["images"].slices())
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_an_archive_is_never_held_whole(tmp_path: Path) -> None:
    peaks = []
    for count in (2, 200):
        np.savez_compressed(tmp_path / f"{count}.npz", images=np.zeros((count, 512, 1024), dtype=np.uint8))
        command = [sys.executable, "-c", PEAK, str(tmp_path / f"{count}.npz")]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024)
    assert peaks[1] < peaks[0] + 20, peaks  # the array alone has 100 MB
