"""Pictures and patients that several sources share, by content digests and groups of all inventories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medheb.build.inventory import AS_GREY, read_header, table_path
from medheb.core.digests import PIXEL_TAG
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run

HEX = 16  # hex digits of a digest that tell pictures apart: 64 bits
SPLIT, GROUP, GREY = "fact.split", "fact.group", f"fact.{AS_GREY}"
Keys = np.ndarray


@dataclass(frozen=True)
class Shared:
    """Two sources with equal pictures.

    Args:
        first: one source.
        second: the other one.
        pictures: different pictures that both have.
        test_and_train: of these, pictures that one has in its test and the other in its training part.
        linked: they draw on one download, so equal pictures are no surprise.
        groups: patients (or cases) that both have, by their names; 0 where nobody is known to be in both sources.
        groups_test_and_train: of these, groups that one has in its test and the other in its training part.
    """

    first: str
    second: str
    pictures: int
    test_and_train: int
    linked: bool
    groups: int = 0
    groups_test_and_train: int = 0


@dataclass(frozen=True)
class Pictures:
    """Keys [n] uint64, sorted and distinct, of all things of a source and of those in its test and training part."""

    all: Keys
    parts: Mapping[str, Keys]

    def shared(self, other: Pictures) -> tuple[int, int]:
        """How many things both have, and how many of them one has in its test and the other in its training part."""
        crossed = [_common(a.parts["test"], b.parts["train"]) for a, b in ((self, other), (other, self))]
        return len(_common(self.all, other.all)), len(np.union1d(*crossed))

    def only(self, keys: Keys) -> Pictures:
        """Those among ``keys``."""
        return Pictures(_common(self.all, keys), {split: _common(part, keys) for split, part in self.parts.items()})


def shared_pictures(run: Run) -> list[Shared]:
    """Every pair of sources with equal pictures, or with patients of both, the pair with most pictures first.

    Sources without a good inventory are left out; the report says of each why. A picture takes eight bytes of memory.
    """
    found, people = dict(_tables_of(run, read_pictures)), _people(run)
    if len(found) < 2:
        return []
    keys, counts = np.unique(np.concatenate([pictures.all for pictures in found.values()]), return_counts=True)
    several = keys[counts > 1]
    own = {name: pictures.only(several) for name, pictures in found.items()}
    pairs: list[Shared] = []
    for first, second in combinations(sorted(found), 2):
        pictures = own[first].shared(own[second])
        same = {first, second} <= set(people) and run.datasets[first].people == run.datasets[second].people
        groups = people[first].shared(people[second]) if same else (0, 0)
        if pictures[0] or groups[0]:
            pairs.append(Shared(first, second, *pictures, _linked(run, first, second), *groups))
    return sorted(pairs, key=lambda pair: (-pair.pictures, -pair.groups, pair.first, pair.second))


def _people(run: Run) -> dict[str, Pictures]:
    """Groups of the sources whose patients are known to be in another source too."""
    shared = {dataset.people for dataset in run.datasets.values() if dataset.patients}
    wanted = [name for name, dataset in run.datasets.items() if dataset.people in shared]
    return dict(_tables_of(run, read_groups, wanted))


def _common(one: Keys, other: Keys) -> Keys:
    return np.intersect1d(one, other, assume_unique=True)


def _linked(run: Run, first: str, second: str) -> bool:
    needs = {name: {name, *run.datasets[name].requires} for name in (first, second)}
    return bool(needs[first] & needs[second])


def _tables_of(
    run: Run, read: Callable[[Path], Pictures], wanted: Collection[str] | None = None
) -> Iterator[tuple[str, Pictures]]:
    for name, dataset in run.datasets.items():
        if wanted is not None and name not in wanted:
            continue
        header = run.layout.inventory(dataset.images, name)
        try:
            if not header.exists() or not read_header(header).status.ok:
                continue
            yield name, read(table_path(header))
        except (MedhebError, OSError, ValueError):
            continue  # the report says of each source why its inventory cannot be read


def read_pictures(table: Path) -> Pictures:
    """Keys of the pictures in an inventory's table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no inventory's table.
    """
    rows = _columns(table, "content", GREY)
    rows = rows.append_column("seen", pc.coalesce(rows[GREY], rows["content"]))
    return _split(rows.filter(pc.starts_with(rows["seen"], f"{PIXEL_TAG}:")), "seen", _keys)


def read_groups(table: Path) -> Pictures:
    """Keys of the groups (patients, cases) in an inventory's table.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no inventory's table.
    """
    rows = _columns(table, GROUP)
    return _split(rows.filter(pc.is_valid(rows[GROUP])), GROUP, _names)


def _columns(table: Path, *names: str) -> pa.Table:
    """Columns of a table, and that of the split; a fact that no file has is null everywhere."""
    there = set(pq.read_schema(table).names)
    rows = pq.read_table(table, columns=[column for column in (*names, SPLIT) if column in there])
    for column in (*names, SPLIT):
        if column not in there:
            rows = rows.append_column(column, pa.nulls(len(rows), pa.string()))
    return rows


def _split(rows: pa.Table, name: str, keys: Callable[[pa.ChunkedArray], Keys]) -> Pictures:
    splits = rows[SPLIT]
    # Where a source has no test part, its validation part is the benchmark's test.
    words = {"train": "train", "test": "test" if pc.any(pc.equal(splits, "test")).as_py() else "valid"}
    parts = {part: keys(rows.filter(pc.equal(splits, word))[name]) for part, word in words.items()}
    return Pictures(keys(rows[name]), parts)


def _names(groups: pa.ChunkedArray) -> Keys:
    names = (blake2b(str(name).encode(), digest_size=8).digest() for name in pc.unique(groups).to_pylist())
    return np.unique(np.array([int.from_bytes(name) for name in names], dtype=np.uint64))


def _keys(contents: pa.ChunkedArray) -> Keys:
    start = len(PIXEL_TAG) + 1
    digits = pc.utf8_slice_codeunits(contents, start=start, stop=start + HEX)
    return np.unique(np.array([int(text, HEX) for text in digits.to_pylist()], dtype=np.uint64))
