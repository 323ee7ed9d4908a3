"""Gains by the rules of ``graded.yaml``: numbers from class names, nothing else. Knows neither source nor model."""

from __future__ import annotations

from collections.abc import Callable, Set

from medheb.core.digests import json_digest
from medheb.manifest.graded import Groups, Overlap, Steps, plain

Labels = frozenset[str]
GainOf = Callable[[Labels, Labels], float]


def gain_rule(relation: Steps | Groups | Overlap) -> GainOf:
    """What a candidate is worth for a query, from 0 to 1, both given by their plain class names."""
    if isinstance(relation, Overlap):
        return jaccard
    related = _by_steps(relation) if isinstance(relation, Steps) else _by_groups(relation)

    def gain(query: Labels, candidate: Labels) -> float:
        if query == candidate:
            return 1.0
        return related.get(query | candidate, 0.0)

    return gain


def jaccard(one: Set[str], other: Set[str]) -> float:
    """Shared labels by all labels of two sets; two empty sets share nothing."""
    return len(one & other) / len(one | other) if one | other else 0.0


def _by_steps(relation: Steps) -> dict[Labels, float]:
    names = [plain(name) for name in relation.classes]
    return {
        frozenset({one, other}): relation.gains[distance - 1]
        for place, one in enumerate(names)
        for distance, other in enumerate(names[place + 1 :], start=1)
        if distance <= len(relation.gains)
    }


def _by_groups(relation: Groups) -> dict[Labels, float]:
    found: dict[Labels, float] = {}
    for group in relation.groups:
        names = [plain(name) for name in group.classes]
        for place, one in enumerate(names):
            for other in names[place + 1 :]:
                pair = frozenset({one, other})
                found[pair] = max(found.get(pair, 0.0), group.gain)
    return found


def relation_digest(relation: Steps | Groups | Overlap) -> str:
    """Digest of what decides the gains; a score keeps it."""
    return json_digest(relation.model_dump(mode="json", exclude={"note"}))


def counted_queries(relation: Steps | Groups | Overlap) -> Labels:
    """Plain names of the classes whose queries count."""
    listed = () if isinstance(relation, Overlap) else relation.queries
    return frozenset(plain(name) for name in listed or relation.classes)
