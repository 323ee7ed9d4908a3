"""Remember which files of a local copy had their expected digest, so that a killed or repeated check goes on.

The file holds 16-byte keyed hashes and nothing else: no path, no digest, no id. A hash covers path, size, times,
inode and digest, so a file that was touched in any way is read again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from pathlib import Path

from medheb.core.files import write_bytes

KEY_BYTES = 32
ENTRY_BYTES = 16
SAVE_ENTRIES, SAVE_SECONDS = 1024, 5.0
# A file that changed just now may change again within one tick of its file system's clock (2 s on the coarsest).
RACY_NS = 2_000_000_000


class DigestCache:
    """Files known to be right. Safe to use from several threads.

    Args:
        path: the cache file; a faulty or foreign one is started anew.
        reread: ignore what earlier runs remembered.
    """

    def __init__(self, path: Path, reread: bool = False) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._fresh: list[bytes] = []
        self._saved = time.monotonic()
        content = b"" if reread else self._content()
        if len(content) < KEY_BYTES:
            self._key = secrets.token_bytes(KEY_BYTES)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, self._key)
            path.chmod(0o600)
            content = self._key
        self._key = content[:KEY_BYTES]
        whole = KEY_BYTES + (len(content) - KEY_BYTES) // ENTRY_BYTES * ENTRY_BYTES
        self._known = {content[at : at + ENTRY_BYTES] for at in range(KEY_BYTES, whole, ENTRY_BYTES)}
        if whole != len(content):
            # A killed run left half an entry; appending after it would shift all that follow.
            os.truncate(path, whole)

    def knows(self, name: str, stat: os.stat_result, digest: bytes) -> bool:
        """True if this very file was read before and had this digest."""
        return self._entry(name, stat, digest) in self._known

    def remember(self, name: str, stat: os.stat_result, digest: bytes) -> None:
        """Note that the file has this digest, unless it changed so recently that its times cannot tell."""
        if time.time_ns() - max(stat.st_mtime_ns, stat.st_ctime_ns) < RACY_NS:
            return
        entry = self._entry(name, stat, digest)
        with self._lock:
            self._known.add(entry)
            self._fresh.append(entry)
            if len(self._fresh) >= SAVE_ENTRIES or time.monotonic() - self._saved >= SAVE_SECONDS:
                self._append()

    def save(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._append()

    def _append(self) -> None:
        if not self._fresh:
            return
        with self._path.open("ab") as stream:
            stream.write(b"".join(self._fresh))
        self._fresh.clear()
        self._saved = time.monotonic()

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""

    def _entry(self, name: str, stat: os.stat_result, digest: bytes) -> bytes:
        facts = f"{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}|".encode()
        text = facts + digest + os.fsencode(name)
        return hashlib.blake2b(text, key=self._key, digest_size=ENTRY_BYTES).digest()
