"""The verdict on a user's own copy of a source.

Names of files stay in memory: ``repr`` hides them, the summary holds counts only, and the one way to see them is
:func:`write_list`, into a file of the user's own outside the run and the repository.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import atomic_open

FileState = Literal["ok", "accepted alternate", "not verifiable", "mismatch", "missing", "partial", "unreadable"]
STATES: tuple[FileState, ...] = (
    "ok",
    "accepted alternate",
    "not verifiable",
    "mismatch",
    "missing",
    "partial",
    "unreadable",
)
USABLE: frozenset[FileState] = frozenset({"ok", "accepted alternate", "not verifiable"})
# What a count of files is called in a sentence: one file, several files.
PHRASES: dict[FileState, tuple[str, str]] = {
    "mismatch": ("differs", "differ"),
    "missing": ("is missing", "are missing"),
    "partial": ("is a partial download", "are partial downloads"),
    "unreadable": ("cannot be read", "cannot be read"),
}


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """Verdict on one file; ``bytes`` is its size on disk, 0 if it is not there."""

    path: str = field(repr=False)
    state: FileState
    note: str = field(default="", repr=False)
    bytes: int = 0


@dataclass(frozen=True)
class Verification:
    """Verdict on a copy: on one project or folder, and on the further projects of the source, if it has any.

    Args:
        dataset: id of the source.
        slug, version, layout: what was recognised; slug and version are empty for sources without a list of digests.
        root: the recognised root.
        full: every listed file was checked and extra ones were counted.
        listed: files in the list of digests or in the manifest.
        list_digest: hex sha256 of the list, None where there is none.
        extra: files that the list does not name (ignored), None if they were not counted.
        files: one verdict a checked file, in the order of the list.
        notes: what a reader should know; free of names.
        closed: folders that a list of names must not be written into.
        also: verdicts on the further projects that the source needs.

    Fields, ``counts`` and ``bytes`` are those of one project; ``ok``, ``summary`` and ``trouble`` tell of all.
    """

    dataset: str
    slug: str
    version: str
    layout: str
    root: Path = field(repr=False)
    full: bool
    listed: int
    list_digest: str | None
    extra: int | None
    files: tuple[FileVerdict, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    closed: tuple[Path, ...] = field(default=(), repr=False)
    also: tuple[Verification, ...] = ()

    @property
    def counts(self) -> dict[FileState, int]:
        """Files of each state that occurs, in fixed order."""
        found = Counter(verdict.state for verdict in self.files)
        return {state: found[state] for state in STATES if found[state]}

    @property
    def bytes(self) -> int:
        """Size of the checked files that are usable."""
        return sum(verdict.bytes for verdict in self.files if verdict.state in USABLE)

    @property
    def ok(self) -> bool:
        """True if every checked file may be used."""
        return all(verdict.state in USABLE for part in self.parts for verdict in part.files)

    @property
    def parts(self) -> tuple[Verification, ...]:
        """The verdict on each project, this one first."""
        return (self, *self.also)

    @property
    def project(self) -> str:
        """Slug and version; empty for sources without a list of digests."""
        return f"{self.slug} {self.version}".strip()

    def summary(self) -> str:
        """One line a project of slug, version, counts, bytes and digest; never a name."""
        return "\n".join(part.line() for part in self.parts)

    def line(self) -> str:
        """The summary of this project alone."""
        head = " ".join(part for part in (self.dataset, self.slug, self.version) if part)
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items()) or "no files"
        extra = f", {self.extra} extra ignored" if self.extra is not None else ""
        digest = f", list sha256 {self.list_digest}" if self.list_digest else ""
        return (
            f"{head} ({self.layout}): {self.listed} listed, {len(self.files)} checked: {counts}{extra}, "
            f"{self.bytes} bytes{digest}"
        )

    def trouble(self) -> MedhebError | None:
        """What is wrong with the copy as one refusal, None if nothing is. Wrong content fails; the rest blocks."""
        faults = [(part, fault) for part in self.parts if (fault := part.fault())]
        if not faults:
            return None
        error = MedhebError if any("mismatch" in part.counts for part, _ in faults) else BlockedError
        return error(
            where_of(self.dataset),
            "; ".join(f"{part.project}: {fault}" if self.also else fault for part, fault in faults),
            f"Rerun with `medheb verify-copy {self.dataset} --list FILE` to write the list to a file of your own, "
            "and download those files again",
        )

    def fault(self) -> str:
        """What is wrong with the files of this project alone, in words and counts; empty if nothing is."""
        faults = [(state, count) for state, count in self.counts.items() if state in PHRASES]
        if not faults:
            return ""
        kind = "checked" if self.full else "needed"
        first, *others = [f"{count} {PHRASES[state][count > 1]}" for state, count in faults]
        number, phrase = first.split(" ", 1)
        return f"{number} of {len(self.files)} {kind} files {phrase}" + "".join(f", {text}" for text in others)

    def named(self) -> Iterator[FileVerdict]:
        """Verdicts on all files; where there are several projects, each path begins with its project's slug."""
        for part in self.parts:
            for verdict in part.files:
                yield replace(verdict, path=f"{part.slug}/{verdict.path}") if self.also else verdict


def where_of(dataset: str) -> str:
    """How messages name a copy: by its source, never by its path."""
    return f"local copy of {dataset}"


def write_list(verification: Verification, path: Path) -> None:
    r"""Write ``state<TAB>path<TAB>note`` of every checked file, readable by its owner only.

    Where the source has several projects, each path begins with its project's slug.
    Backslash, tab and line ends in names are written as ``\\``, ``\t``, ``\n`` and ``\r``.

    Raises:
        MedhebError: the file would lie inside the run's folders or a git repository, where names of credentialed
            data must not be, or cannot be written.
    """
    target = Path(os.path.realpath(path.expanduser()))
    if _is_closed(target, verification.closed):
        raise MedhebError(
            "--list", "lies inside the folders of the run or a repository", "Name a file in a private folder of yours"
        )
    if not target.parent.is_dir():
        raise MedhebError("--list", "lies in a folder that does not exist", "Make the folder first")
    try:
        with atomic_open(target) as stream:
            os.fchmod(stream.fileno(), 0o600)
            for verdict in verification.named():
                fields = (verdict.state, _escaped(verdict.path), _escaped(verdict.note))
                stream.write(os.fsencode("\t".join(fields).rstrip("\t") + "\n"))
    except OSError as error:
        raise MedhebError("--list", f"cannot be written ({error.strerror})", "Name another file") from None


def _is_closed(target: Path, closed: Sequence[Path]) -> bool:
    folders = [target, *target.parents]
    if {Path(os.path.realpath(folder)) for folder in closed} & set(folders):
        return True
    return any((folder / ".git").exists() for folder in folders[1:])


def _escaped(text: str) -> str:
    for sign, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(sign, written)
    return text
