"""From a path in a released task JSON to a picture that was built, and to its path from our image root."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from medheb.index.paths import Found, Images
from medheb.manifest.task import Task

WORDS = re.compile(r"[a-z]+\d*|\d+")


class Resolver:
    """Resolves the paths of one task. ``ways`` counts distinct paths by how they were found.

    Ways: ``root`` (below our image root), ``other root`` (below the second one), ``case`` (by case and slice name,
    where the folders in the released paths are not published) and ``missing``.

    Args:
        task: gives the roots.
        images: what the task's sources built.
        by_case: sources whose paths may be looked up by case and slice name.
    """

    def __init__(self, task: Task, images: Images, by_case: frozenset[str]) -> None:
        self._roots = task.image_roots
        self._images = images
        self._known: dict[str, str | None] = {}
        self._by_case = by_case & {dataset.id for dataset, _ in images.sources}
        self._cases: dict[tuple[str, str], list[Found]] | None = None
        self.ways: Counter[str] = Counter()

    def path(self, released: str) -> str | None:
        """The picture's path from our image root; None if no source of the task built it."""
        if released not in self._known:
            way, found = self._find(released)
            below = found.below(self._roots[0]) if found and self._roots else None
            self.ways[way if below else "missing"] += 1
            self._known[released] = below
        return self._known[released]

    def _find(self, released: str) -> tuple[str, Found | None]:
        for way, root in zip(("root", "other root"), self._roots, strict=False):
            found = self._images.get(f"{root}/{released}")
            if found:
                return way, found
        found = self._same_case(released) if self._by_case else None
        return ("case", found) if found else ("missing", None)

    def _same_case(self, released: str) -> Found | None:
        """The only picture with this file name of a case that the path names.

        Several parts of one case (T1 and T2, CT and MR) are told apart by the words of the rest of the path; where
        these do not single out one, nothing is found.
        """
        if self._cases is None:
            self._cases = self._index()
        *folders, name = released.split("/")
        for folder in reversed(folders):
            candidates = self._cases.get((folder, name))
            if candidates:
                return _closest(released, candidates)
        return None

    def _index(self) -> dict[tuple[str, str], list[Found]]:
        cases: dict[tuple[str, str], list[Found]] = defaultdict(list)
        for found in self._images.all():
            case = found.file.facts.get("case")
            if found.source.id in self._by_case and isinstance(case, str) and case:
                # "<case id> <modality>": the released path names the case id.
                cases[case.split()[0], found.file.path.rsplit("/", 1)[-1]].append(found)
        return cases


def _closest(released: str, candidates: list[Found]) -> Found | None:
    wanted = _words(released)
    shared = [len(wanted & _words(f"{found.file.path} {found.file.facts.get('case')}")) for found in candidates]
    best = max(shared)
    return candidates[shared.index(best)] if shared.count(best) == 1 else None


def _words(path: str) -> frozenset[str]:
    return frozenset(WORDS.findall(path.lower()))
