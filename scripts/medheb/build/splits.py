"""Splits where no list is published: by group, with a keyed hash.

A group (patient, case, source picture) falls on one side by the hash of its name alone, so the side does not depend
on file order, on the other groups, or on a stream of random numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output

TRAIN_SHARE = 0.7
NOT_PUBLISHED = "the split is ours, 7:3 by a keyed hash of the group: no published list was at hand"
# Words that sources use, and the word of the inventory.
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "val": "valid",
    "valid": "valid",
    "validation": "valid",
    "validate": "valid",
    "test": "test",
    "testing": "test",
}


def split_word(text: str) -> str | None:
    """``train``, ``valid`` or ``test`` for a source's word for it, None for any other."""
    return SPLIT_WORDS.get(text.strip().lower())


def drawn_split(seed: int, dataset: str, group: str, train_share: float = TRAIN_SHARE) -> str:
    """``train`` or ``test`` for a group.

    Args:
        seed: of the run.
        dataset: id of the source, so that equal names in two sources are drawn apart.
        group: name of the unit of splitting.
        train_share: share of all groups that go to ``train``, on average.
    """
    key = hashlib.sha256(f"{seed}\0{dataset}\0{group}".encode("utf-8", "surrogateescape")).digest()
    return "train" if int.from_bytes(key[:8]) < train_share * 2**64 else "test"


def write_selections(files: Sequence[BuiltFile], out: Output, kinds: Sequence[str]) -> None:
    """A list of the pictures of each kind and split, ``selection/<kind>_<split>.txt``, so that each has a digest.

    Args:
        files: all files of the source, in path order.
        out: of the source's last step.
        kinds: which pictures; files without a split are not listed.
    """
    for kind in kinds:
        lists: dict[str, list[str]] = {}
        for file in files:
            split = file.facts.get("split")
            if file.facts.get("kind") == kind and split is not None:
                lists.setdefault(str(split), []).append(file.path)
        for split, paths in sorted(lists.items()):
            out.lines(f"selection/{kind}_{split}.txt", paths, kind="selection", split=split)
