"""Builder ``region``: a whole picture and a text; the crop (or crops) that the text stands for is to be found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from medheb.core.errors import MedhebError
from medheb.index.builders.common import (
    Context,
    Pair,
    Part,
    RuleOptions,
    Shown,
    Wrong,
    group_of,
    unambiguous,
)
from medheb.index.entries import JOINED, Entry, Select


class RegionOptions(RuleOptions):
    """Settings of ``region``.

    Args:
        pictures: whole pictures.
        crops: regions of them.
        picture_key: facts of a picture (``path`` too) that its crops repeat.
        crop_key: the same facts of a crop, under their names there.
        label: fact of a crop that is the text.
        several: crops of one text in one picture are one target; else each is its own.
        listed: the source's own list of test rows (with ``picture``, ``label`` and ``crops``), which then decides.
    """

    pictures: Select
    crops: Select
    picture_key: tuple[str, ...] = ("case",)
    crop_key: tuple[str, ...] = ("case",)
    label: str = "label"
    several: bool = False
    listed: str | None = None


def _key(entry: Entry, names: Sequence[str]) -> tuple[str, ...]:
    return (entry.dataset, *(entry.fact(name) for name in names))


def _joined(crops: Sequence[Entry]) -> Entry:
    """Crops of one target, by their number."""
    ordered = sorted(crops, key=lambda crop: (int(crop.known("number") or 0), crop.files))
    return Entry(
        ordered[0].dataset,
        tuple(path for crop in ordered for path in crop.paths),
        JOINED.join(crop.content for crop in ordered),
        ordered[0].facts,
        tuple(file for crop in ordered for file in crop.files),
    )


def _pair(picture: Entry, label: str, crop: Entry) -> Pair:
    groups = tuple(dict.fromkeys((group_of(picture), group_of(crop))))
    return Pair(f"{picture.name}|{label}|{crop.name}", Shown(label, picture), Shown("", crop), groups, label)


def _found(context: Context[RegionOptions], part: Part) -> Iterator[Pair]:
    options = context.options
    pictures = {_key(entry, options.picture_key): entry for entry in context.entries(options.pictures)}
    targets: dict[tuple[tuple[str, ...], str, str], list[Entry]] = defaultdict(list)
    missing = 0
    for crop in context.of_part(context.entries(options.crops), part):
        key = _key(crop, options.crop_key)
        if key not in pictures:
            missing += 1
            continue
        targets[key, crop.fact(options.label), "" if options.several else crop.name].append(crop)
    context.left_out(missing, "crops whose picture was not written")
    for (key, label, _), crops in targets.items():
        yield _pair(pictures[key], label, _joined(crops))


def _listed(context: Context[RegionOptions], path: str) -> list[Pair] | None:
    """The rows of the sources' own lists; None where no source has one."""
    found, lists = [], 0
    for source in context.sources.all:
        for row in source.rows("selection", path):
            lists += 1
            facts = {name: row.cells[name] for name in ("label", "group") if name in row.cells}
            picture = source.entry_of([row.text("picture")], {})
            crop = source.entry_of([str(name) for name in row.cells.get("crops") or ()], facts)
            if picture is None or crop is None:
                raise MedhebError(row.where, "names a picture or crop that was not built", "Build the source again")
            found.append(_pair(picture, row.text("label"), crop))
    return found if lists else None


def region_pairs(context: Context[RegionOptions], part: Part) -> Iterator[Pair]:
    """Picture and text, and the crop. Repeated crops, and texts that a picture has twice, give one row in a test.

    Raises:
        MedhebError: a local pool.
    """
    context.needs_pool("global")
    listed = context.options.listed
    own = _listed(context, listed) if listed and part == "test" else None
    found = list(_found(context, part)) if own is None else own
    kept = unambiguous(found) if part == "test" else found
    context.left_out(len(found) - len(kept), "crops that repeat another, or whose text fits several crops of a picture")
    yield from kept


def region_wrong(_: Context[RegionOptions], __: Sequence[Pair], ___: Sequence[Pair]) -> Wrong:
    """Nothing: all crops of the task are the pool."""
    return lambda pair: ()
