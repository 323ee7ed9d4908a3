"""Read single members of a large zip on a server, without downloading the archive."""

from __future__ import annotations

import logging
import time
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import requests

from medheb.fetch.archives import Budget, Entry, damage_named, with_damage_named, zip_members, zip_name
from medheb.fetch.ranges import RangeFile, RangeOptions
from medheb.fetch.space import MEGABYTE, require_space
from medheb.fetch.unpack import Member, matching, write_members
from medheb.manifest.dataset import Unpack

LOG = logging.getLogger("medheb.fetch")
REPORT_EVERY_S = 60.0


def fetch_members(
    url: str, rules: Unpack, target: Path, options: RangeOptions, session: requests.Session | None = None
) -> tuple[Member, ...]:
    """Write the wanted members of a remote zip (ZIP64 too) below ``target``, which is replaced whole.

    Members go through the same name checks and caps as those of a local archive, and their CRC is compared.
    ``max_ratio`` counts against the packed bytes of the wanted members. The archive's own digest cannot be
    compared, as most of it is never read.

    Args:
        url: address of the archive; never shown or logged.
        rules: which members, and the caps.
        target: folder.
        options: name and size of the archive, tries, timeouts.
        session: carries credentials, if any.

    Returns:
        What was written, sorted by path bytes.

    Raises:
        BlockedError: as :class:`medheb.fetch.ranges.RangeFile`, or the disk is too small.
        MedhebError: a harmful member, a broken cap, damaged bytes, another size than the pinned one, or a
            pattern that matches nothing; ``target`` is then as it was before.
    """
    archive = Path(options.name)
    with RangeFile(url, options, session) as remote:
        with damage_named(archive):
            opened = zipfile.ZipFile(remote)
        with opened:
            packed, plain = _claims(opened, archive, rules)
            # What the directory claims is checked before anything large is read; what comes is counted again.
            Budget(archive, packed, rules).wanted(plain)
            require_space(target, plain, f"unpacking {archive.name}")
            budget = Budget(archive, packed, rules)
            walk = with_damage_named(archive, zip_members(opened, archive, budget))
            return write_members(_reported(matching(walk, archive, rules, budget), archive), target)


def _claims(opened: zipfile.ZipFile, archive: Path, rules: Unpack) -> tuple[int, int]:
    """Packed and unpacked bytes of the wanted members, as the directory says."""
    wanted = [
        info
        for info in opened.infolist()
        if any(fnmatchcase(zip_name(info, archive).removeprefix("./"), pattern) for pattern in rules.include)
    ]
    return sum(info.compress_size for info in wanted), sum(info.file_size for info in wanted)


def _reported(wanted: Iterator[Entry], archive: Path) -> Iterator[Entry]:
    """The same entries, with a line in the log once a minute; no member is named."""
    size = count = 0
    told = time.monotonic()

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal size, told
        for chunk in chunks:
            size += len(chunk)
            if time.monotonic() - told >= REPORT_EVERY_S:
                told = time.monotonic()
                LOG.info("%s: %d members, %.1f MB", archive.name, count, size / MEGABYTE)
            yield chunk

    for entry in wanted:
        yield Entry(entry.path, entry.folder, counted(entry.chunks))
        count += 1
