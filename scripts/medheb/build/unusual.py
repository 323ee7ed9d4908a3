"""Pictures that were not what their source promises, counted over a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.imaging.pictures import SUFFIXES, Decoded

FACT = "unusual"
# Notes that tell of the file, not of what was done to its pixels, by their first words.
ONLY_TOLD = (*SUFFIXES, "several frames")


def unusual(decoded: Decoded) -> str | None:
    """What was unusual about a picture, as a fact of it; None for an ordinary one."""
    return "; ".join(decoded.notes) or None


class Noted(Protocol):
    """A picture with fixed phrases about what was unusual or done."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The phrases."""


def done(picture: Noted) -> str:
    """What was done to the pixels of a picture that is written anew: ``CMYK to RGB``, or ``as stored``."""
    return "; ".join(note for note in picture.notes if not note.startswith(ONLY_TOLD)) or "as stored"


def note_unusual(files: Sequence[BuiltFile], out: Output) -> None:
    """Say in the source's notes how many pictures there are of each kind of unusual ones.

    Args:
        files: all files of the source; those with the fact ``unusual`` count.
        out: of the source's last step.
    """
    counts = Counter(str(file.facts[FACT]) for file in files if file.facts.get(FACT))
    for text, count in sorted(counts.items()):
        out.note(f"{count} {'picture' if count == 1 else 'pictures'}: {text}")
