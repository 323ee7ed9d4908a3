"""What a build left out or found odd, in words: counts for reports, names for the user's own terminal.

Terms of some sources forbid to name their cases. What is said of these has kinds and counts only; the inventory, which
stays where the data are, names each case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from medheb.build.inventory import Duplicates, Inventory, Refusal, Remark

SHOWN = 10
# Words of faults, never of data.
PLAIN_NAMES = frozenset(
    {
        "DICOM",
        "JPEG",
        "PNG",
        "TIFF",
        "CSV",
        "JSON",
        "NIfTI",
        "NRRD",
        "HU",
        "CT",
        "MR",
        "X-ray",
        "8-bit",
        "CUDA",
        "UTF-8",
    }
)


DIMENSIONS = re.compile(r"[0-9]-dimensional")


def general(fault: str) -> str:
    """The part of a fault that says nothing of the data: its first words, up to a name, number or quotation."""
    kept = []
    for word in fault.split():
        bare = word.strip(",;:")
        if not (bare in PLAIN_NAMES or (bare.isalpha() and bare.islower()) or DIMENSIONS.fullmatch(bare)):
            break
        kept.append(word)
    return " ".join(kept).rstrip(",;:") if len(kept) > 1 else "another fault"


def kinds_of(refusals: Sequence[Refusal]) -> str:
    """``is not in HU (3); is missing (1)``: kinds of refusals, the commonest first, without a name."""
    return _counted(_kind(refusal.fault) for refusal in refusals)


def _kind(fault: str) -> str:
    """The general part of a fault, and a sign where it was cut."""
    kind = general(fault)
    return kind if kind in (fault, "another fault") else f"{kind} ..."


def _counted(kinds: Iterable[str]) -> str:
    ordered = sorted(Counter(kinds).items(), key=lambda pair: (-pair[1], pair[0]))
    return "; ".join(f"{kind} ({number})" for kind, number in ordered)


def commonest_remedy(refusals: Sequence[Refusal]) -> str:
    """What to do about the kind of refusal that is most frequent. Remedies are words of ours, never of the data."""
    counts = Counter(_kind(refusal.fault) for refusal in refusals)
    return max(refusals, key=lambda refusal: counts[_kind(refusal.fault)]).remedy


def totals(refusals: Sequence[Refusal], remarks: Sequence[Remark]) -> list[str]:
    """Notes for the report: how many were left out, how many lost a part, how many are odd."""
    parts = Counter(refusal.lost for refusal in refusals if refusal.lost)
    whole = len(refusals) - sum(parts.values())
    notes = [f"cases, files or rows that could not be used: {whole:,}; the inventory names each"] if whole else []
    for part, number in sorted(parts.items()):
        notes.append(f"cases built without their {part}: {number}; the inventory names each")
    return notes + ([f"cases or files that were built although odd: {len(remarks)}"] if remarks else [])


def equals(duplicates: Duplicates) -> list[str]:
    """Notes for the report on pictures with the same pixels; none if all differ."""
    inside, across = duplicates.inside, duplicates.across_splits
    notes = [f"pictures whose pixels another one of the source has, too: {inside:,}"] if inside else []
    return notes + ([f"different pictures that stand in more than one split: {across:,}"] if across else [])


def lines_of(inventory: Inventory, named: bool) -> list[str]:
    """What the terminal says of an inventory's refusals and remarks.

    Args:
        inventory: of a build.
        named: whether cases may be named there.
    """
    whole = [refusal for refusal in inventory.refusals if not refusal.lost]
    parts = [refusal for refusal in inventory.refusals if refusal.lost]
    if not named:
        lines = [f"left out: {kinds_of(whole)}"] if whole else []
        for part in sorted({str(refusal.lost) for refusal in parts}):
            lines.append(f"built without {part}: {kinds_of([own for own in parts if own.lost == part])}")
        odd = _counted(f"{_kind(remark.oddity)}: {remark.done}" for remark in inventory.remarks)
        return lines + ([f"odd: {odd}"] if odd else [])
    lines = _first([f"left out: {own.where}: {own.fault}. {own.remedy}" for own in whole])
    lines += _first([f"built without {own.lost}: {own.where}: {own.fault}. {own.remedy}" for own in parts])
    return lines + _first([f"odd: {own.where}: {own.oddity}. {own.done}" for own in inventory.remarks])


def _first(lines: Sequence[str]) -> list[str]:
    kind = lines[0].split(":")[0] if lines else ""
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"{kind}: ... and {more} more"] if more > 0 else [])]
