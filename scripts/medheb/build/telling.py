"""What a build left out or found odd, in words: counts for reports, names for the user's own terminal.

Terms of some sources forbid to name their cases. What is said of these has kinds and counts only; the inventory, which
stays where the data are, names each case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medheb.build.inventory import Inventory, Refusal, Remark

SHOWN = 10
# Words of faults, never of data.
PLAIN_NAMES = frozenset(
    {"DICOM", "JPEG", "PNG", "TIFF", "CSV", "JSON", "NIfTI", "NRRD", "HU", "CT", "MR", "X-ray", "8-bit", "CUDA"}
)


def general(fault: str) -> str:
    """The part of a fault that says nothing of the data: its first words, up to a name, number or quotation."""
    kept = []
    for word in fault.split():
        bare = word.strip(",;:")
        if not (bare in PLAIN_NAMES or (bare.isalpha() and bare.islower())):
            break
        kept.append(word)
    return " ".join(kept).rstrip(",;:") if len(kept) > 1 else "another fault"


def kinds_of(refusals: Sequence[Refusal]) -> str:
    """``3 is not in HU; 1 is missing``: kinds of refusals by their number, without a name."""
    counts = Counter(general(refusal.fault) for refusal in refusals)
    return "; ".join(
        f"{number} {kind}" for kind, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )


def totals(refusals: Sequence[Refusal], remarks: Sequence[Remark]) -> list[str]:
    """Notes for the report: how many were left out, how many lost a part, how many are odd."""
    parts = Counter(refusal.lost for refusal in refusals if refusal.lost)
    whole = len(refusals) - sum(parts.values())
    notes = [f"{whole} cases, files or rows could not be used; the inventory names each"] if whole else []
    notes += [f"{number} were built without {part}; the inventory names each" for part, number in sorted(parts.items())]
    return notes + ([f"{len(remarks)} remarks on cases that were built although odd"] if remarks else [])


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
        odd = Counter(f"{general(remark.oddity)}: {remark.done}" for remark in inventory.remarks)
        return lines + [f"odd: {number} {words}" for words, number in sorted(odd.items())]
    lines = _first([f"left out: {own.where}: {own.fault}. {own.remedy}" for own in whole])
    lines += _first([f"built without {own.lost}: {own.where}: {own.fault}. {own.remedy}" for own in parts])
    return lines + _first([f"odd: {own.where}: {own.oddity}. {own.done}" for own in inventory.remarks])


def _first(lines: Sequence[str]) -> list[str]:
    kind = lines[0].split(":")[0] if lines else ""
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"{kind}: ... and {more} more"] if more > 0 else [])]
