"""Numbers as the page writes them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

NONE = "\u2013"
THIN_SPACE = "\u2009"


def percent(share: float) -> str:
    """A share as per cent with one decimal, without the sign; a dash if there is none."""
    return NONE if math.isnan(share) else f"{100 * share:.1f}"


def interval(low: float, high: float) -> str:
    """``51.0-61.4`` with an en dash, in per cent; a dash if there is none."""
    return NONE if math.isnan(low) or math.isnan(high) else f"{100 * low:.1f}\u2013{100 * high:.1f}"


def count(number: Any) -> str:
    """A whole number with thin spaces between thousands; a dash if there is none."""
    return NONE if number is None or pd.isna(number) else f"{int(number):,}".replace(",", THIN_SPACE)


def signed(share: float) -> str:
    """A difference of shares in points with its sign, a true minus; a dash if there is none."""
    return NONE if math.isnan(share) else f"{100 * share:+.1f}".replace("-", "\u2212")


def span(low: int, high: int) -> str:
    """``2`` or ``2-5`` with an en dash."""
    return str(low) if low == high else f"{low}\u2013{high}"


def p_value(p: float) -> str:
    """A p-value after 'p': ``= 0.032``, ``< 0.001``, or that there is none."""
    if math.isnan(p):
        return "unknown"
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def hours(number: float) -> str:
    """Hours, in seconds or minutes where they are few; a dash if unknown."""
    if math.isnan(number):
        return NONE
    if number < 0.05:
        return f"{3600 * number:.0f} s"
    return f"{60 * number:.0f} min" if number < 2 else f"{number:.1f} h"


def position(share: float) -> str:
    """A place on a scale of 0 to 100 % for a style sheet; limits beyond the scale are drawn at its end."""
    return f"{100 * min(1.0, max(0.0, share)):.2f}%"


def sort_key(number: Any) -> str:
    """What a column is sorted by; empty for a missing number, which sorts last."""
    return "" if number is None or pd.isna(number) else f"{float(number):.9g}"


def plural(number: int, noun: str) -> str:
    """``1 task``, ``12 tasks``."""
    endings = {"family": "families", "query": "queries"}
    return f"{number} {noun if number == 1 else endings.get(noun, noun + 's')}"
