"""The store: what was written is what is read; damage is named, never used."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.embed.store import Store


def vectors(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 5)).astype(np.float32)


def test_round_trip_across_shards_and_in_any_order(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = vectors(3), vectors(2, seed=1)
    store.append(["a", "b", "c"], first)
    store.append(["d", "e"], second)
    reopened = Store(tmp_path)
    assert np.array_equal(reopened.load(["e", "a", "c"]), np.stack([second[1], first[0], first[2]]))
    assert len(reopened) == 5
    assert "d" in reopened


def test_missing_key_names_store_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"lacks the vector of input f00d.*Run the embedding step again"):
        Store(tmp_path).load(["f00d"])


@pytest.mark.parametrize("keep", [0, 7, 60, -4])
def test_cut_shard_is_refused_or_set_aside(tmp_path: Path, keep: int) -> None:
    Store(tmp_path).append(["a", "b"], vectors(2))
    shard = next(tmp_path.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:keep])
    with pytest.raises(MedhebError, match="is damaged"):
        Store(tmp_path)
    assert len(Store(tmp_path, repair=True)) == 0


def test_flipped_bit_in_a_vector_is_found_on_reading(tmp_path: Path) -> None:
    Store(tmp_path).append(["a", "b"], vectors(2))
    shard = next(tmp_path.glob("*.safetensors"))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(MedhebError, match="do not have the digest"):
        Store(tmp_path).load(["a"])


def test_shard_of_another_revision_is_refused_or_set_aside(tmp_path: Path) -> None:
    Store(tmp_path / "old").append(["a"], vectors(1))
    shard = next((tmp_path / "old").glob("*.safetensors"))
    (tmp_path / "new").mkdir()
    shard.rename(tmp_path / "new" / shard.name)
    with pytest.raises(MedhebError, match="written for fingerprint old, another model, revision or setting"):
        Store(tmp_path / "new")
    assert len(Store(tmp_path / "new", repair=True)) == 0


def test_changed_vectors_are_set_aside_when_checked(tmp_path: Path) -> None:
    Store(tmp_path).append(["a"], vectors(1))
    Store(tmp_path).append(["b"], vectors(1, seed=1))
    shard = sorted(tmp_path.glob("*.safetensors"))[0]
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(MedhebError, match="do not have the digest"):
        Store(tmp_path).check(["a", "b", "c"])
    store = Store(tmp_path, repair=True)
    store.check(["a", "b", "c"])
    assert len(store) == len(Store(tmp_path)) == 1


def test_digest_sees_keys_and_vectors_not_shards(tmp_path: Path) -> None:
    rows = vectors(3)
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    one.append(["a", "b", "c"], rows)
    two.append(["c"], rows[2:])
    two.append(["b", "a"], rows[1::-1])
    assert one.digest() == two.digest()
    assert one.digest(["a", "b"]) != one.digest()
    other = Store(tmp_path / "other")
    other.append(["a", "b", "c"], rows[::-1])
    assert other.digest() != one.digest()


def test_notes_stay_with_the_vectors_that_they_are_about(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    store.append(["a", "b"], vectors(2), cut=["b"], notes=["memory ran out", "memory ran out"])
    store.append(["c", "d"], vectors(2, seed=1), cut=["c", "d"])
    for opened in (store, Store(tmp_path / "new")):
        cut = "texts of this group of tasks that are longer than the model reads, cut at their end: {}"
        assert opened.notes("abcde") == ("memory ran out", cut.format(3))
        assert opened.notes("a") == ("memory ran out",)
        assert opened.notes("cx") == (cut.format(1),)
        assert opened.notes("x") == ()
    other = Store(tmp_path / "old")
    other.append(["a", "b"], vectors(2))
    assert other.notes("ab") == (), "weights or settings of another fingerprint have notes of their own"


def test_leftovers_of_a_killed_writer_are_ignored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(["a"], vectors(1))
    (tmp_path / ".x.safetensors.part.host.1.abc").write_bytes(b"half a shard")
    assert list(Store(tmp_path)) == ["a"]


def _write(folder: Path, seed: int) -> None:
    store = Store(folder)
    for shard in range(5):
        store.append([f"{seed}-{shard}-{row}" for row in range(4)], vectors(4, seed=seed * 10 + shard))


def test_several_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path, seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(Store(tmp_path)) == 80


def test_wrong_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="3 keys need"):
        Store(tmp_path).append(["a", "b", "c"], vectors(2))
