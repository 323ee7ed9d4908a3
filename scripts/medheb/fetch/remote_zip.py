"""Read single members of a large zip on a server, without downloading the archive."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from medheb.fetch.archives import Budget, Entry, damage_named, with_damage_named, zip_members, zip_name
from medheb.fetch.credentials import Login
from medheb.fetch.progress import Meter, meter
from medheb.fetch.ranges import BLOCK_BYTES, RangeFile
from medheb.fetch.sessions import ANONYMOUS
from medheb.fetch.space import require_space
from medheb.fetch.unpack import Member, matching, write_members
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Unpack


def fetch_members(
    url: str,
    rules: Unpack,
    target: Path,
    transfer: Transfer,
    *,
    what: str,
    size: int | None = None,
    login: Login = ANONYMOUS,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[Member, ...]:
    """Write the wanted members of a remote zip (ZIP64 too) below ``target``, which is replaced whole.

    Members go through the same name checks and caps as those of a local archive, and their CRC is compared.
    ``max_ratio`` counts against the packed bytes of the wanted members. The archive's own digest cannot be
    compared, as most of it is never read.

    Args:
        url: address of the archive; never shown or logged.
        rules: which members, and the caps.
        target: folder.
        transfer: tries of one piece, requests at once to one host.
        what: the archive, as errors call it.
        size: the bytes that the manifest pins, None if it does not.
        login: for the hosts it names.
        block_bytes: how much is asked for at a time.

    Returns:
        What was written, sorted by path bytes.

    Raises:
        BlockedError: as :class:`medheb.fetch.ranges.RangeFile`, or the disk is too small.
        MedhebError: a harmful member, a broken cap, damaged bytes, another size than the pinned one, or a
            pattern that matches nothing; ``target`` is then as it was before.
    """
    archive = Path(what)
    with RangeFile(url, what, size, transfer, login, block_bytes) as remote:
        with damage_named(archive):
            opened = zipfile.ZipFile(remote)
        with opened:
            packed, plain = _claims(opened, archive, rules)
            # What the directory claims is checked before anything large is read; what comes is counted again.
            Budget(archive, packed, rules).wanted(plain)
            require_space(target, plain, f"unpacking {what}")
            budget = Budget(archive, packed, rules)
            walk = with_damage_named(archive, zip_members(opened, archive, budget))
            with meter(what, plain) as progress:
                return write_members(_metered(matching(walk, archive, rules, budget), progress), target)


def _claims(opened: zipfile.ZipFile, archive: Path, rules: Unpack) -> tuple[int, int]:
    """Packed and unpacked bytes of the wanted members, as the directory says."""
    wanted = [
        info
        for info in opened.infolist()
        if any(fnmatchcase(zip_name(info, archive).removeprefix("./"), pattern) for pattern in rules.include)
    ]
    return sum(info.compress_size for info in wanted), sum(info.file_size for info in wanted)


def _metered(wanted: Iterator[Entry], progress: Meter) -> Iterator[Entry]:
    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            progress.add(len(chunk))
            yield chunk

    for entry in wanted:
        yield Entry(entry.path, entry.folder, counted(entry.chunks))
