"""Sections of a radiology report: findings and impression under their headings.

The rules follow what is known of the owners' parser: a heading is a line that begins with capitals and a colon, and
of a repeated heading the last one counts, so that an addendum above the report does not hide it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADING = re.compile(r"^[ \t]*([A-Z][A-Z ()/,&'-]{1,60}?)[ \t]*:", re.MULTILINE)
RULE = re.compile(r"^[ \t]*_{4,}[ \t]*$", re.MULTILINE)


def sections_of(report: str) -> dict[str, str]:
    """Texts by heading, white space collapsed; lines of underscores, which part addenda, are left out."""
    text = RULE.sub("", report)
    marks = list(HEADING.finditer(text))
    found: dict[str, str] = {}
    for place, mark in enumerate(marks):
        end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
        body = " ".join(text[mark.end() : end].split())
        if body:
            found[" ".join(mark[1].split())] = body
    return found


def first_of(sections: dict[str, str], headings: Sequence[str]) -> str:
    """Text under the first of several headings that is there; empty if none is."""
    return next((sections[heading] for heading in headings if heading in sections), "")
