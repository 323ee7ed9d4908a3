"""Pictures that several sources share, by the content digests of all inventories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medheb.build.inventory import read_header, table_path
from medheb.core.digests import PIXEL_TAG
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run

HEX = 16  # hex digits of a digest that tell pictures apart: 64 bits
SPLITS = ("test", "train")
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
    """

    first: str
    second: str
    pictures: int
    test_and_train: int
    linked: bool


@dataclass(frozen=True)
class Pictures:
    """Keys [n] uint64, sorted and distinct, of all pictures of a source and of those in its test and training part."""

    all: Keys
    parts: Mapping[str, Keys]


def shared_pictures(run: Run) -> list[Shared]:
    """Every pair of sources with equal pictures, the pair with most first.

    Sources without a good inventory are left out; the report says of each why. A picture takes eight bytes of memory.
    """
    found = dict(_pictures_of(run))
    if len(found) < 2:
        return []
    keys, counts = np.unique(np.concatenate([pictures.all for pictures in found.values()]), return_counts=True)
    several = keys[counts > 1]
    own = {name: _common(pictures.all, several) for name, pictures in found.items()}
    parts = {
        (name, split): _common(pictures.parts[split], several) for name, pictures in found.items() for split in SPLITS
    }
    pairs: list[Shared] = []
    for first, second in combinations(sorted(found), 2):
        both = len(_common(own[first], own[second]))
        if both:
            crossed = [_common(parts[a, "test"], parts[b, "train"]) for a, b in ((first, second), (second, first))]
            crossing = len(np.union1d(*crossed))
            pairs.append(Shared(first, second, both, crossing, _linked(run, first, second)))
    return sorted(pairs, key=lambda pair: (-pair.pictures, pair.first, pair.second))


def _common(one: Keys, other: Keys) -> Keys:
    return np.intersect1d(one, other, assume_unique=True)


def _linked(run: Run, first: str, second: str) -> bool:
    needs = {name: {name, *run.datasets[name].requires} for name in (first, second)}
    return bool(needs[first] & needs[second])


def _pictures_of(run: Run) -> Iterator[tuple[str, Pictures]]:
    for name, dataset in run.datasets.items():
        header = run.layout.inventory(dataset.images, name)
        try:
            if not header.exists() or not read_header(header).status.ok:
                continue
            yield name, read_pictures(table_path(header))
        except (MedhebError, OSError, ValueError):
            continue  # the report says of each source why its inventory cannot be read


def read_pictures(table: Path) -> Pictures:
    """Keys of the pictures in an inventory's table; only two of its columns are read.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no inventory's table.
    """
    split = "fact.split"
    names = ["content", *([split] if split in pq.read_schema(table).names else [])]
    rows = pq.read_table(table, columns=names)
    rows = rows.filter(pc.starts_with(rows["content"], f"{PIXEL_TAG}:"))
    parts = {
        part: _keys(rows.filter(pc.equal(rows[split], part))["content"])
        if split in names
        else _keys(rows["content"][:0])
        for part in SPLITS
    }
    return Pictures(_keys(rows["content"]), parts)


def _keys(contents: object) -> Keys:
    start = len(PIXEL_TAG) + 1
    digits = pc.utf8_slice_codeunits(contents, start=start, stop=start + HEX)
    return np.unique(np.array([int(text, HEX) for text in digits.to_pylist()], dtype=np.uint64))
