"""A findings line for an axial slice, written from its mask. Real pixels, derived text."""

from __future__ import annotations

from collections.abc import Mapping

from medheb.build.demo.anatomy import Structure

# Smallest cross-section in cm2 of each size word: a liver is large, a kidney medium-sized, a rib small.
SIZES: tuple[tuple[str, float], ...] = (("Large", 40.0), ("Medium-sized", 8.0), ("Small", 0.0))


def findings_line(areas: Mapping[Structure, float]) -> str:
    """All structures of a slice under coarse sizes, largest first.

    For example "Large: liver, spleen. Small: aorta, left 9th rib."

    Args:
        areas: cross-section of each structure in cm2.
    """
    ranked = sorted(areas.items(), key=lambda item: (-item[1], item[0].label))
    sentences = []
    ceiling = float("inf")
    for word, floor in SIZES:
        named = [structure.label for structure, cm2 in ranked if floor <= cm2 < ceiling]
        if named:
            sentences.append(f"{word}: {', '.join(named)}.")
        ceiling = floor
    return " ".join(sentences)
