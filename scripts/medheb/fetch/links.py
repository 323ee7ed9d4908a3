"""One copy of MIMIC-CXR for all folders that show its pictures, as the dataset card lays it out.

``2D_Images/mimic_original/<version>/files`` points at the user's copy with an absolute link: the copy lies outside
the benchmark, and this is the one link to renew when it moves. The links of the four folders (``files`` and ``p10``
to ``p19``) go there with relative ones, so they survive a move of the benchmark and work in a staging folder beside
the final one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.files import fsync_folder, temporary_name

SHARED = "mimic_original"
GROUPS = tuple(f"p{number}" for number in range(10, 20))
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def link_shared(images: Path, root: Path, version: str) -> None:
    """Point ``images/mimic_original/<version>/files`` at the copy.

    Args:
        images: the benchmark's ``2D_Images`` folder.
        root: project root of the verified copy; its ``files`` folder holds ``p10`` to ``p19``.
        version: names the shared folder.

    Raises:
        MedhebError: the copy has no ``files``, or a real file or folder stands where a link must be.
    """
    if not VERSION.fullmatch(version):
        raise MedhebError(SHARED, f"cannot be named by version {version!r}", "Allowed: letters, digits, dot and dash")
    files = Path(os.path.realpath(root)) / "files"
    if not files.is_dir():
        raise MedhebError("copy of MIMIC-CXR", "has no folder 'files'", "Point local_copies at a copy with pictures")
    _link(images / SHARED / version / "files", str(files))


def link_folder(folder: Path, version: str) -> None:
    """Link ``files`` and the groups in one image folder beside ``mimic_original``; the folder may be a staging one.

    Groups that the copy lacks get no link, and lose a stale one.

    Raises:
        MedhebError: the shared link is not there, or a real file or folder stands where a link must be.
    """
    shared = folder.parent / SHARED / version / "files"
    if not shared.is_dir():
        raise MedhebError(shared, "does not lead to a copy of MIMIC-CXR", "Verify the copy again: run fetch and build")
    inner = f"../{SHARED}/{version}/files"
    _link(folder / "files", inner)
    for group in GROUPS:
        if (shared / group).is_dir():
            _link(folder / group, f"{inner}/{group}")
        elif (folder / group).is_symlink():
            (folder / group).unlink()


def _link(place: Path, target: str) -> None:
    """Make ``place`` a link to ``target``, in one rename; right ones are left alone."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        if os.readlink(place) == target:  # noqa: PTH115 - the text of the link
            return
    elif place.exists():
        raise MedhebError(place, "is a real file or folder where a link must be", "Move it away; it was not touched")
    temporary = temporary_name(place)
    try:
        temporary.symlink_to(target)
        os.replace(temporary, place)
        fsync_folder(place.parent)
    finally:
        temporary.unlink(missing_ok=True)
