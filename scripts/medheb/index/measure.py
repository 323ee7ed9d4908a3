"""Measures the quality of a task while its rows go by: each row is seen once and not kept."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from hashlib import blake2b

from medheb.build.inventory import BuiltFile
from medheb.build.registry import RECIPES
from medheb.core.digests import PIXEL_TAG
from medheb.index.paths import Found, Images
from medheb.index.quality import HIT, Labels, Merged, Projected, Quality, Splits, labels_of, spread_of
from medheb.index.records import Item, Record
from medheb.index.text_rules import honest, published
from medheb.manifest.load import Run
from medheb.manifest.task import Task

TRAIN = "train"
MAX_KEPT_TEXTS = 100_000
TextKeys = tuple[int, int, int]  # of the text itself, after the published cleaning, after the honest one


def key_of(text: str) -> int:
    """64 bits that tell texts apart."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class Measure:
    """Collects the figures of one task. Memory grows with distinct things (eight bytes each), not with rows.

    Args:
        run: gives protocol and kind of index.
        task: its row.
        images: what the task's sources built.
    """

    def __init__(self, run: Run, task: Task, images: Images) -> None:
        self._run, self._task, self._images = run, task, images
        self._rows = 0
        self._repeated_queries = 0
        self._queries: set[int] = set()
        self._pools: Counter[int] = Counter()
        self._candidates: dict[int, int] = {}  # content to a key of the first path
        self._two_names: set[int] = set()  # contents that came under two paths
        self._positives: list[int] = []
        self._rows_with_repeats = self._repeats = self._positives_repeated = self._own_two_names = 0
        self._labels: Counter[str] = Counter()
        self._label_candidates: dict[str, set[int]] = {}
        self._positive_labels: list[str] = []
        self._equal_label, self._any_label = 0, False
        self._query_lengths: Counter[int] = Counter()
        self._text_lengths: Counter[int] = Counter()
        self._texts: tuple[set[int], set[int], set[int]] = (set(), set(), set())
        self._kept: dict[str, TextKeys] = {}
        self._merged_rows = [0, 0]
        self._named: dict[int, Found] = {}
        self._volumes_in_train: set[int] = set()

    @cached_property
    def _trained(self) -> frozenset[str]:
        """Contents of the pictures of the training part."""
        return frozenset(
            file.seen
            for _, inventory in self._images.sources
            for file in inventory.files
            if split_of(file) == TRAIN and file.content.startswith(PIXEL_TAG)
        )

    def add(self, record: Record) -> None:
        """Look at the next row."""
        self._rows += 1
        query = self._content(record.query)
        self._repeated_queries += query in self._queries
        self._queries.add(query)
        if record.qry_text.strip():
            self._query_lengths[len(record.qry_text)] += 1
        candidates = record.candidates
        contents = [self._content(item) for item in candidates]
        names = [hash((item.text, item.images)) for item in candidates]
        distinct = set(contents)
        self._pools[len(distinct)] += 1
        self._rows_with_repeats += len(distinct) < len(contents)
        self._repeats += len(contents) - len(distinct)
        self._positives_repeated += contents.count(contents[0]) > 1
        self._positives.append(contents[0])
        for content, name in zip(contents, names, strict=True):
            if self._candidates.setdefault(content, name) != name:
                self._two_names.add(content)
        if self._task.pool == "local":
            twice = {name for content, name in zip(contents, names, strict=True) if content == contents[0]}
            self._own_two_names += len(twice) > 1
        self._look_at_labels(candidates, contents)
        self._look_at_texts(candidates)

    def _content(self, item: Item) -> int:
        if not item.images:
            return self._keys(item.text)[0] if item.text else 0
        parts, leaked = [item.text], 0
        for path in item.images:
            found = self._found(path)
            parts.append(found.file.seen if found else path)
            leaked += found is not None and split_of(found.file) != TRAIN and parts[-1] in self._trained
        key = key_of("\0".join(parts))
        if leaked == len(item.images):
            self._volumes_in_train.add(key)
        return key

    def _found(self, path: str) -> Found | None:
        found = self._images.get(f"{self._task.image_root}/{path}")
        if found:
            self._named[id(found.file)] = found
        return found

    def _keys(self, text: str) -> TextKeys:
        keys = self._kept.get(text)
        if keys is None:
            if len(self._kept) >= MAX_KEPT_TEXTS:
                self._kept.clear()
            keys = self._kept[text] = (key_of(text), key_of(published(text)), key_of(honest(text)))
        return keys

    def _label(self, item: Item) -> str | None:
        if item.images:
            found = self._found(item.images[0])
            label = found.file.facts.get("label") if found else None
            return None if label is None else str(label)
        return item.text if self._task.family in {"image-label", "vqa"} else None

    def _look_at_labels(self, candidates: list[Item], contents: list[int]) -> None:
        label = self._label(candidates[0])
        if label is None:
            return
        self._labels[label] += 1
        if not candidates[0].images:
            return
        self._any_label = True
        if self._task.pool == "local":
            self._equal_label += any(
                content != contents[0] and self._label(item) == label
                for item, content in zip(candidates[1:], contents[1:], strict=True)
            )
            return
        self._positive_labels.append(label)
        for item, content in zip(candidates, contents, strict=True):
            own = self._label(item)
            if own is not None:
                self._label_candidates.setdefault(own, set()).add(content)

    def _look_at_texts(self, candidates: list[Item]) -> None:
        texts = [item.text for item in candidates if item.text and not item.images]
        if not texts:
            return
        keys = [self._keys(text) for text in texts]
        for text, found in zip(texts, keys, strict=True):
            if found[0] not in self._texts[0]:
                self._text_lengths[len(text)] += 1
                for kept, key in zip(self._texts, found, strict=True):
                    kept.add(key)
        first = keys[0]
        for rule in (1, 2):
            self._merged_rows[rule - 1] += any(
                other[rule] == first[rule] and other[0] != first[0] for other in keys[1:]
            )

    def result(self) -> Quality:
        """The figures of all rows that went by."""
        is_global, total = self._task.pool == "global", self._rows
        pools = Counter({len(self._candidates): total}) if is_global and total else self._pools
        shared = sum(content in self._two_names for content in self._positives) if is_global else self._own_two_names
        if is_global:
            self._equal_label = sum(len(self._label_candidates[label]) > 1 for label in self._positive_labels)
        return Quality(
            task=self._task.task,
            task_index=self._run.config.task_index,
            protocol=self._run.config.protocol,
            rows=total,
            repeated_queries=self._repeated_queries,
            pool=spread_of(pools),
            distinct_candidates=len(self._candidates),
            chance_hit1=_chance(pools, 1),
            chance_hit5=_chance(pools, HIT),
            trivial_hit5=_share(sum(count for size, count in pools.items() if size <= HIT), total),
            rows_with_repeats=self._rows_with_repeats,
            repeats=self._repeats,
            positives_repeated=self._positives_repeated,
            positives_shared_name=shared,
            positives_equal_label=self._equal_label if self._any_label else None,
            labels=self._balance(),
            query_text=spread_of(self._query_lengths),
            candidate_text=spread_of(self._text_lengths),
            splits=self._splits(),
            merged=self._merged(),
            projected=self._projected(),
        )

    def _equal(self, others: list[Found]) -> int:
        if self._task.form == "3d":
            return len(self._volumes_in_train)
        return sum(found.file.seen in self._trained for found in others)

    def _projected(self) -> Projected | None:
        made = Counter(found.file.facts.get("projector") for found in self._named.values())
        by = {str(projector): count for projector, count in sorted(made.items(), key=str) if projector is not None}
        config = self._run.config
        follow = all(
            entry is not None and entry.follows_projector
            for entry in (RECIPES.get(self._run.datasets[name].recipe.name) for name in self._task.sources)
        )
        expected = config.drr.chosen(config.protocol) if follow else None
        return Projected(expected=expected, made_by=by) if by else None

    def _balance(self) -> Labels | None:
        return labels_of(self._labels)

    def _merged(self) -> Merged | None:
        before, published_, honest_ = (len(kept) for kept in self._texts)
        if not before:
            return None
        return Merged(
            answers=before,
            published=before - published_,
            published_rows=self._merged_rows[0],
            honest=before - honest_,
            honest_rows=self._merged_rows[1],
        )

    def _splits(self) -> Splits | None:
        if not self._named:
            return None
        trained = self._trained
        groups = {
            (dataset.id, str(file.facts["group"]))
            for dataset, inventory in self._images.sources
            for file in inventory.files
            if split_of(file) == TRAIN and file.facts.get("group") is not None
        }
        others = [found for found in self._named.values() if split_of(found.file) != TRAIN]
        held = {_group(found) for found in others if found.file.facts.get("group") is not None}
        by_split = Counter(split_of(found.file) or "none" for found in self._named.values())
        return Splits(
            pictures=len(self._named),
            by_split=dict(sorted(by_split.items())),
            equal_in_train=self._equal(others) if trained else None,
            groups=len(held),
            groups_in_train=len(held & groups) if trained else None,
        )


def split_of(file: BuiltFile) -> str | None:
    """The split that the build noted for a file."""
    split = file.facts.get("split")
    return None if split is None else str(split)


def _group(found: Found) -> tuple[str, str]:
    return found.source.id, str(found.file.facts["group"])


def _share(part: float, whole: int) -> float:
    return round(part / whole, 9) if whole else 0.0


def _chance(pools: Counter[int], places: int) -> float:
    """How often a random order has the right candidate among the first ``places``."""
    return _share(sum(min(1.0, places / size) * count for size, count in pools.items()), sum(pools.values()))
