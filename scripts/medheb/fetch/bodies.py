"""Tell a file from the page that a host sends in its place: quota pages, logins, LFS pointers."""

from __future__ import annotations

import html
import re

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.log import scrub

PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
BINARY_SUFFIXES = (
    *(".zip", ".gz", ".tgz", ".xz", ".bz2", ".tar", ".7z", ".rar", ".whl"),
    *(".npz", ".npy", ".parquet", ".h5", ".hdf5", ".dcm", ".nii", ".nrrd", ".mha", ".mat", ".pkl", ".svs", ".tif"),
)
# No real archive or array file of a source is smaller; pages of hosts often are.
TINY_BYTES = 1024
# Enough of a page to hold its title.
HEAD_BYTES = 1 << 16
MAX_TITLE = 100
PAGE_START = re.compile(
    rb"\s*(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)
TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
LFS_START = b"version https://git-lfs.github.com/spec/"


def page_title(head: bytes) -> str:
    """Title of an HTML page as one printable line, ``no title`` if it has none."""
    found = TITLE.search(head.decode("utf-8", "replace"))
    text = " ".join(html.unescape(found.group(1)).split()) if found else ""
    return scrub("".join(sign for sign in text if sign.isprintable()))[:MAX_TITLE] or "no title"


def refuse_page(what: str, name: str, content_type: str, head: bytes) -> None:
    """Refuse a body that is a web page or a pointer, judged by its type and its first bytes.

    Args:
        what: named in errors.
        name: the file's name; a file that is a page itself is let through.
        content_type: as the host says.
        head: the first bytes of the body, up to ``HEAD_BYTES``.

    Raises:
        BlockedError: it is a page; names its title.
        MedhebError: it is a Git LFS pointer.
    """
    if head.startswith(LFS_START):
        raise MedhebError(
            what,
            "is only a Git LFS pointer at this address",
            "Point the manifest at a host that serves the file itself",
        )
    if name.lower().endswith(PAGE_SUFFIXES):
        return
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {"text/html", "application/xhtml+xml"} or PAGE_START.match(head):
        raise BlockedError(
            what,
            f"the host sent a web page ('{page_title(head)}') instead of the file",
            "Open the source's page in a browser: a quota, a login or a form may stand in the way. Try again later, or "
            "set local_copies in the configuration to your own copy",
        )


def refuse_tiny(what: str, name: str, size: int) -> None:
    """Refuse a body of unknown digest and size that is too small for a file of its kind.

    Raises:
        BlockedError: it is.
    """
    if size < TINY_BYTES and name.lower().endswith(BINARY_SUFFIXES):
        raise BlockedError(
            what,
            f"the host sent only {size} bytes, too few for such a file",
            "Open the address in a browser to see what the host says; if the file really is that small, pin its sha256",
        )
