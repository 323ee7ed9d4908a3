"""Walk the members of a zip (a wheel is one) or tar archive; every member is checked, none is trusted.

Headers are only claims: what counts is counted while the bytes flow. Links, devices and everything
else that is not a plain file or folder is refused, so nothing can point outside.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from medheb.core.digests import CHUNK_BYTES
from medheb.core.errors import MedhebError
from medheb.fetch.names import NameGuard, hostile, shown
from medheb.manifest.dataset import Unpack

ZIP_SUFFIXES = (".whl", ".zip")
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2")
# Below this size the ratio says nothing: an empty tar is 10 KiB of zeros.
RATIO_FLOOR_BYTES = 1 << 20
# Extended tar headers are read into memory whole by the library.
MAX_TAR_HEADER_BYTES = 1 << 20
TAR_BLOCK_BYTES = 512
TAR_READ_BYTES = 20 * TAR_BLOCK_BYTES
ZIP_ENCRYPTED_FLAGS = 0x1 | 0x40
ZIP_UTF8_FLAG = 0x800
TAR_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Budget:
    """Counts members and bytes while they come out, against a manifest's caps.

    Args:
        archive: named in errors.
        packed: packed bytes, the base of the ratio.
        rules: the caps.
    """

    def __init__(self, archive: Path, packed: int, rules: Unpack) -> None:
        self._archive = archive
        self._rules = rules
        self._members = 0
        self._wanted = 0
        self._unpacked = 0
        self._limit = max(RATIO_FLOOR_BYTES, int(packed * rules.max_ratio))

    def member(self) -> None:
        """Count one member, wanted or not."""
        self._members += 1
        if self._members > self._rules.max_members:
            raise hostile(self._archive, f"holds more than {self._rules.max_members} members (unpack.max_members)")

    def unpacked(self, size: int) -> None:
        """Count ``size`` bytes that came out of the decompressor."""
        self._unpacked += size
        if self._unpacked > self._limit:
            raise hostile(
                self._archive, f"unpacks to more than {self._rules.max_ratio:g} times its size (unpack.max_ratio)"
            )

    def wanted(self, size: int) -> None:
        """Count ``size`` bytes of members that are kept."""
        self._wanted += size
        if self._wanted > self._rules.max_bytes:
            raise hostile(self._archive, f"unpacks to more than {self._rules.max_bytes} bytes (unpack.max_bytes)")


@dataclass(frozen=True)
class Entry:
    """One checked member: ``path`` in plain form and whether it is a folder.

    ``chunks`` gives the bytes of a file; use it before asking for the next entry.
    """

    path: str
    folder: bool
    chunks: Iterator[bytes]


@contextmanager
def damage_named(archive: Path) -> Iterator[None]:
    """Turn what the readers raise on broken bytes into one error that names the archive."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise hostile(archive, "holds a member name that is not valid UTF-8") from error
    except (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error) as error:
        raise _damaged(archive, error) from error
    except (NotImplementedError, ValueError, OverflowError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        # A decompressor's complaint has no errno; a real disk or file error has one and is not the archive's fault.
        if error.errno is not None:
            raise
        raise _damaged(archive, error) from error


def _damaged(archive: Path, error: Exception) -> MedhebError:
    detail = " ".join(str(error).split()) or type(error).__name__
    return MedhebError(
        archive, f"is damaged or cut short ({detail[:120]})", "Nothing was unpacked; delete it and fetch it again"
    )


def entries(archive: Path, budget: Budget) -> Iterator[Entry]:
    """All members of ``archive`` in archive order, checked; the kind is told by the file name.

    Raises:
        MedhebError: an unknown kind, a harmful member, a broken cap or damaged bytes.
    """
    name = archive.name.lower()
    if name.endswith(ZIP_SUFFIXES):
        walk = _zip_entries(archive, budget)
    elif name.endswith(TAR_SUFFIXES):
        walk = _tar_entries(archive, budget)
    else:
        allowed = ", ".join(ZIP_SUFFIXES + TAR_SUFFIXES)
        raise MedhebError(archive, "is not a kind of archive that can be unpacked", f"Allowed: {allowed}")
    yield from with_damage_named(archive, walk)


def with_damage_named(archive: Path, walk: Iterator[Entry]) -> Iterator[Entry]:
    """The same entries; an error of a reader, now or while chunks are read, names ``archive``."""
    with damage_named(archive):
        for entry in walk:
            yield replace(entry, chunks=_named_chunks(archive, entry.chunks))


def _named_chunks(archive: Path, chunks: Iterator[bytes]) -> Iterator[bytes]:
    with damage_named(archive):
        yield from chunks


def _zip_entries(archive: Path, budget: Budget) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as opened:
        yield from zip_members(opened, archive, budget)


def zip_members(opened: zipfile.ZipFile, archive: Path, budget: Budget) -> Iterator[Entry]:
    """All members of an open zip in the order of its directory, checked; ``archive`` is named in errors.

    Raises:
        MedhebError: a harmful member or a broken cap. Damage comes as the library raises it
            (see :func:`with_damage_named`).
    """
    guard = NameGuard(archive)
    for info in opened.infolist():
        budget.member()
        name = zip_name(info, archive)
        folder = name.endswith("/")
        path = guard.accept(name, folder)
        if info.flag_bits & ZIP_ENCRYPTED_FLAGS:
            raise hostile(archive, f"member {shown(path)} is encrypted")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in {0, stat.S_IFDIR if folder else stat.S_IFREG}:
            what = "a symbolic link" if kind == stat.S_IFLNK else "not a plain file or folder"
            raise hostile(archive, f"member {shown(path)} is {what}")
        yield Entry(path, folder, _zip_chunks(opened, info, budget))


def zip_name(info: zipfile.ZipInfo, archive: Path) -> str:
    """The member's name as its writer meant it: UTF-8, declared or not.

    Raises:
        MedhebError: the name is in another encoding, which the archive does not tell.
    """
    # The whole name as it stands in the directory; ``filename`` is cut at its first NUL.
    name = info.orig_filename
    if info.flag_bits & ZIP_UTF8_FLAG:
        return name
    try:
        # The library decodes an undeclared name as code page 437, which loses nothing; many writers mean UTF-8.
        return name.encode("cp437").decode("utf-8")
    except UnicodeDecodeError as error:
        raise hostile(archive, f"member {shown(name)} is not valid UTF-8") from error


def _zip_chunks(opened: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> Iterator[bytes]:
    size = 0
    with opened.open(info) as stream:
        # Reading to the end makes the library compare the CRC.
        while chunk := stream.read(CHUNK_BYTES):
            budget.unpacked(len(chunk))
            size += len(chunk)
            yield chunk
    if size != info.file_size:
        raise zipfile.BadZipFile(f"member {shown(info.filename)} has {size} bytes, its header says {info.file_size}")


class _Header(tarfile.TarInfo):
    """A tar header that refuses an extended header too large to be honest, before it is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        """Parse one header block."""
        header = super().frombuf(buf, encoding, errors)
        plain = header.type in tarfile.SUPPORTED_TYPES and header.type not in {
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
        }
        if header.size < 0 or (not plain and header.size > MAX_TAR_HEADER_BYTES):
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


class _TarBytes:
    """Decompressed bytes of a tar: counted, and the last ones kept to look at its end."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream = stream
        self._budget = budget
        self._position = 0
        self._tail = b""

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; empty at the end."""
        block = self._stream.read(size)
        self._budget.unpacked(len(block))
        self._position += len(block)
        self._tail = (self._tail + block)[-2 * TAR_READ_BYTES :]
        return block

    def rest(self, offset: int) -> Iterator[bytes]:
        """All bytes from ``offset``, which lies at most one read back, to the end."""
        back = self._position - offset
        yield self._tail[-back:] if back > 0 else b""
        while block := self.read(CHUNK_BYTES):
            yield block


def _decompressed(archive: Path) -> IO[bytes]:
    name = archive.name.lower()
    if name.endswith("gz"):
        return cast(IO[bytes], gzip.open(archive, "rb"))
    if name.endswith("xz"):
        return cast(IO[bytes], lzma.open(archive, "rb"))
    if name.endswith("bz2"):
        return cast(IO[bytes], bz2.open(archive, "rb"))
    return archive.open("rb")


def _tar_entries(archive: Path, budget: Budget) -> Iterator[Entry]:
    guard = NameGuard(archive)
    with _decompressed(archive) as stream:
        source = _TarBytes(stream, budget)
        opened = tarfile.open(  # noqa: SIM115 - closed with the stream it reads
            fileobj=cast(IO[bytes], source), mode="r|", bufsize=TAR_READ_BYTES, tarinfo=_Header
        )
        for info in opened:
            budget.member()
            path = guard.accept(info.name, info.isdir())
            if info.type not in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE} or info.issparse():
                kind = "a sparse file" if info.issparse() else TAR_KINDS.get(info.type, "not a plain file or folder")
                raise hostile(archive, f"member {shown(path)} is {kind}")
            yield Entry(path, info.isdir(), _tar_chunks(opened, info))
        _check_tar_end(source.rest(opened.offset))


def _tar_chunks(opened: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    size = 0
    stream = opened.extractfile(info)
    while stream is not None and (chunk := stream.read(CHUNK_BYTES)):
        size += len(chunk)
        yield chunk
    if size != info.size:
        raise tarfile.ReadError(f"member {shown(info.name)} has {size} bytes, its header says {info.size}")


def _check_tar_end(rest: Iterator[bytes]) -> None:
    # The library takes a broken header, or no more bytes, for the end. The real end is a block of zeros with only
    # zeros after it; reading to the last byte also makes the decompressor compare its checksum.
    size = 0
    for block in rest:
        size += len(block)
        if block.strip(b"\0"):
            raise tarfile.ReadError("a header is broken or there is something behind the end mark")
    if size < TAR_BLOCK_BYTES:
        raise tarfile.ReadError("the end mark is missing")
