"""What a downloaded file must be, and the check of its bytes while they pass."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from medheb.core.errors import MedhebError
from medheb.fetch.remote import RemoteFile
from medheb.manifest.dataset import Dataset, SourceFile


@dataclass(frozen=True)
class Expected:
    """Size and digests of a file, each None if nobody knows it; ``accepted`` holds further right sha256."""

    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None
    accepted: tuple[str, ...] = ()

    @property
    def size(self) -> int | None:
        """The size that can be demanded: None where an accepted alternate may have another one."""
        return None if self.accepted else self.bytes

    @property
    def pinned(self) -> bool:
        """True if content is judged by a digest."""
        return self.sha256 is not None or self.md5 is not None or bool(self.accepted)


class Check:
    """Counts and digests bytes as they pass.

    Args:
        expected: what they must be at the end.
    """

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False) if expected.md5 else None
        self.size = 0

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.size += len(chunk)
        self._sha256.update(chunk)
        if self._md5:
            self._md5.update(chunk)

    def finish(self, what: str) -> None:
        """Judge the whole file.

        Raises:
            MedhebError: size or a digest is not the expected one.
        """
        expected, got = self._expected, self._sha256.hexdigest()
        if got in expected.accepted:
            return
        if expected.size is not None and self.size != expected.size:
            # A longer body is not read to its end.
            raise changed(what, f"{expected.size} bytes", "more" if self.size > expected.size else f"{self.size} bytes")
        allowed = [digest for digest in (expected.sha256, *expected.accepted) if digest]
        if allowed and got not in allowed:
            raise changed(what, f"sha256 {' or '.join(allowed)}", f"sha256 {got}")
        if self._md5 and self._md5.hexdigest() != expected.md5:
            raise changed(what, f"md5 {expected.md5}", f"md5 {self._md5.hexdigest()} (sha256 {got})")


def changed(what: str, wanted: str, got: str) -> MedhebError:
    """The refusal of a file that is not the one of the manifest."""
    return MedhebError(
        what,
        f"upstream changed: expected {wanted}, got {got}",
        "It was not used; find out why it differs. If its publisher stands by the new file, add its sha256 with a note "
        "under 'accepted' of that file in the manifest, or correct the manifest",
    )


def manifest_file(dataset: Dataset, path: str) -> SourceFile | None:
    """The manifest's entry of a file, None if the manifest does not name it."""
    return next((file for file in dataset.files if file.path == path), None)


def expected_of(dataset: Dataset, file: RemoteFile) -> Expected:
    """What manifest and host together say of a file; the manifest has the last word."""
    pinned = manifest_file(dataset, file.path)
    if pinned is None:
        return Expected(file.bytes, file.sha256, file.md5)
    accepted = tuple(digest.sha256 for digest in pinned.accepted)
    if accepted:
        # The host may list the alternate; only sha256 can tell which of the right ones came.
        return Expected(file.bytes, pinned.sha256 or file.sha256, None, accepted)
    return Expected(
        pinned.bytes if pinned.bytes is not None else file.bytes,
        pinned.sha256 or file.sha256,
        pinned.md5 or file.md5,
    )
