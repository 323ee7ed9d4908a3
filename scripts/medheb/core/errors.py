"""The one error that users see: what file, what is wrong, what to do."""

from __future__ import annotations

from pathlib import Path


def printable(text: str) -> str:
    """A text that any file and terminal takes; bytes of a file name that are not UTF-8 become escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class MedhebError(Exception):
    """A refusal in three parts. Every message that reaches a user is made here.

    Args:
        where: the file (or source, model, task) that is at fault.
        fault: what is wrong with it, in one clause.
        remedy: what the user can do about it.
    """

    def __init__(self, where: str | Path, fault: str, remedy: str) -> None:
        self.where, self.fault, self.remedy = printable(str(where)), printable(fault), printable(remedy)
        super().__init__(f"{self.where}: {self.fault}. {self.remedy}")

    def __reduce__(self) -> tuple[type[MedhebError], tuple[str, str, str]]:
        """Errors of worker processes arrive as they were raised."""
        return type(self), (self.where, self.fault, self.remedy)


class BlockedError(MedhebError):
    """Something outside our reach is missing (network, terms, credentials, optional client).

    Steps turn it into a ``blocked`` status; it never stops a run.
    """
