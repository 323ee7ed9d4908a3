"""What a recipe writes: pictures, copies, records, and what it refuses or has to say."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, UnidentifiedImageError

from medheb.build.inventory import AS_GREY, BuiltFile, Fact, Refusal, Remark
from medheb.core.digests import digests_of, sha256_bytes
from medheb.core.errors import MedhebError, printable
from medheb.imaging.png import encode_picture
from medheb.imaging.volume import Array
from medheb.manifest.base import check_relative


def why_not(error: BaseException) -> str:
    """Why a picture cannot be decoded, in words that are the same each time: Pillow's own name a memory address."""
    return "it is no picture" if isinstance(error, UnidentifiedImageError) else str(error)


def _write(target: str, content: bytes) -> None:
    with open(target, "xb") as stream:  # noqa: PTH123 - see Output._claim
        stream.write(content)


@dataclass(frozen=True)
class Known:
    """Size in bytes, L1 and L2 digest of a file; and of an RGB picture without colour, the L2 digest as a grey one."""

    bytes: int
    sha256: str
    content: str
    grey: str | None = None


class Output:
    """The writing side of one unit of work. Everything lands below ``folder``, which no reader sees yet.

    Args:
        folder: becomes the image folder once all units are there.
        where: the source's id, for messages.
    """

    def __init__(self, folder: Path, where: str) -> None:
        self._folder = os.fspath(folder)
        self._where = where
        self.files: dict[str, BuiltFile] = {}
        self.linked: set[str] = set()
        self._folders: set[str] = set()
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self.refusals: list[Refusal] = []
        self.remarks: list[Remark] = []

    def picture(self, path: str, pixels: Array | Image.Image, **facts: Fact) -> None:
        """Write a picture as PNG with the project's fixed settings.

        Args:
            path: below the image folder.
            pixels: uint8 (H, W) or (H, W, 3), uint16 (H, W), or a Pillow image of a mode that PNG can hold.
            facts: what index builders and readers need to know of it; mode and size are added to them.
        """
        target = self._claim(path)
        encoded, digests = encode_picture(pixels)
        _write(target, encoded)
        form: dict[str, Fact] = {"mode": digests.mode, "width": digests.width, "height": digests.height}
        self._add(path, len(encoded), digests.sha256, digests.content, form | facts | {AS_GREY: digests.grey})

    def content(self, path: str, content: bytes, **facts: Fact) -> None:
        """Write bytes as they are: a picture that the source stores encoded, a table, a list.

        Raises:
            MedhebError: a picture that cannot be decoded.
        """
        try:
            digest, grey = digests_of(Path(path), content)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise MedhebError(
                f"{self._where}: {path}", f"cannot be decoded ({why_not(error)})", "Get an undamaged copy"
            ) from error
        target = self._claim(path)
        _write(target, content)
        self._add(path, len(content), sha256_bytes(content), digest, facts | {AS_GREY: grey})

    def file(self, path: str, original: Path, **facts: Fact) -> None:
        """Take over a file of the source unchanged.

        Raises:
            MedhebError: a picture that cannot be decoded.
        """
        content = original.read_bytes()
        try:
            digest, grey = digests_of(Path(path), content)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise MedhebError(original, f"cannot be decoded ({why_not(error)})", "Get an undamaged copy") from error
        self.known_file(path, original, Known(len(content), sha256_bytes(content), digest, grey), facts)

    def known_file(self, path: str, original: Path, known: Known, facts: Mapping[str, Fact]) -> None:
        """Take over a file that the caller has read already: a hard link where the file system allows, else a copy."""
        target = self._claim(path)
        try:
            os.link(os.path.realpath(original), target)
        except OSError:
            shutil.copyfile(original, target)
        self._add(path, known.bytes, known.sha256, known.content, {**facts, AS_GREY: known.grey})

    def again(self, path: str, first: str, **facts: Fact) -> None:
        """A second place for a file that this unit wrote: a hard link where the file system allows, else a copy.

        Args:
            path: the second place.
            first: the first, as it was given to this object.
            facts: of the second place; mode and size are those of the first.
        """
        known = self.files[first]
        form = {name: known.facts[name] for name in ("mode", "width", "height", AS_GREY) if name in known.facts}
        target = self._claim(path)
        try:
            os.link(f"{self._folder}/{first}", target)
        except OSError:
            shutil.copyfile(f"{self._folder}/{first}", target)
        self._add(path, known.bytes, known.sha256, known.content, form | facts)

    def link(self, path: str, original: Path, facts: Mapping[str, Fact], sha256: str, content: str, size: int) -> None:
        """List a file that stays where it is and is reached through a link of the image folder.

        Args:
            path: below the image folder, through the link.
            original: the file itself; it must exist.
            facts: what index builders need to know.
            sha256: its digest, hex.
            content: its L2 digest.
            size: bytes.
        """
        if not original.is_file():
            raise MedhebError(self._where, "a listed file is not in the copy", "Verify the copy again")
        if path in self.files:
            raise self._twice(path)
        self.linked.add(path)
        self._add(path, size, sha256, content, facts)

    def records(self, path: str, rows: Iterable[Mapping[str, Any]], **facts: Fact) -> None:
        """Write rows as JSON lines (sorted keys, UTF-8) and note the file's facts."""
        lines = (json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        try:
            content = "".join(lines).encode()
        except UnicodeEncodeError as error:
            where, fault = f"{self._where}: {path}", "would hold half a character, which no UTF-8 has"
            raise MedhebError(where, fault, "Mend the source's text") from error
        self.content(path, content, **facts)

    def lines(self, path: str, lines: Iterable[str], **facts: Fact) -> None:
        """Write a list, one entry a line (UTF-8, LF): a selection, say."""
        self.content(path, "".join(f"{line}\n" for line in lines).encode(), **facts)

    def refuse(self, error: MedhebError, lost: str | None = None) -> None:
        """Leave out one case, file or row, with the reason; the others go on.

        Args:
            error: the reason.
            lost: what alone is left out, if the rest of ``error.where`` is built: ``X-ray``.
        """
        self.refusals.append(Refusal(where=str(error.where), fault=error.fault, remedy=error.remedy, lost=lost))

    def remark(self, where: str, oddity: str, done: str) -> None:
        """List a case that is built although something about it is odd.

        Args:
            where: its file.
            oddity: what is odd, in the words of a fault.
            done: what was made of it, a sentence without its full stop.
        """
        self.remarks.append(Remark(where=printable(where), oddity=oddity, done=done))

    def note(self, text: str) -> None:
        """Say once what was skipped or is thin, in words for the report: counts, no identifiers."""
        if text not in self.notes:
            self.notes.append(text)

    def count(self, phrase: str, number: int = 1) -> None:
        """Add to a number that the report shows over the whole source, as in ``12 rows without a label``."""
        self.counts[phrase] += number

    def discard(self) -> None:
        """Remove what was written, because its unit failed half-way. What is only linked is the user's own."""
        for path in self.files.keys() - self.linked:
            Path(self._folder, path).unlink(missing_ok=True)
        self.files.clear()
        self.linked.clear()
        self.counts.clear()
        self.remarks.clear()

    def _claim(self, path: str) -> str:
        """The place of a file, with its folder made and nothing there. As text: it is asked for millions of files."""
        if path in self.files:
            raise self._twice(path)
        try:
            check_relative(path)
            path.encode()
        except UnicodeEncodeError as error:
            raise MedhebError(f"{self._where}: {path}", "is not named in UTF-8", "Rename the file") from error
        except ValueError as error:
            raise MedhebError(f"{self._where}: {path!r}", f"is not {error}", "Mend the recipe or the source") from error
        target = f"{self._folder}/{path}"
        folder = path.rpartition("/")[0]
        if folder not in self._folders:
            Path(self._folder, folder).mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)
        # An attempt that was cut off may have left a hard link to an original there: never write through it.
        if os.path.lexists(target):
            os.unlink(target)  # noqa: PTH108
        return target

    def _twice(self, path: str) -> MedhebError:
        return MedhebError(f"{self._where}: {path}", "would be written twice", "Give each picture its own name")

    def _add(self, path: str, size: int, sha256: str, content: str, facts: Mapping[str, Fact]) -> None:
        kept = {name: value for name, value in facts.items() if value is not None}
        for name, value in kept.items():
            if isinstance(value, str) and printable(value) != value:
                raise MedhebError(
                    f"{self._where}: {path}",
                    f"holds half a character in its {name}, which no UTF-8 has",
                    "Mend the source's text",
                )
        self.files[path] = BuiltFile(path=path, bytes=size, sha256=sha256, content=content, facts=kept)
