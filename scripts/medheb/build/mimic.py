"""The user's one copy of MIMIC-CXR: where its pictures and reports are, and how image folders show them.

Pictures stay where they are. An image folder has links to them (:mod:`medheb.fetch.links`), and its inventory lists
those that tasks can use, with the digests of the files themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from medheb.build.closed_tables import Fault, Row, rows_of
from medheb.build.inventory import AS_GREY, Fact
from medheb.build.output import Output
from medheb.build.source import Source
from medheb.core.digests import picture_digests, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.fetch.links import GROUPS, SHARED, link_folder, link_shared
from medheb.imaging.picture_modes import Modes, convert
from medheb.imaging.pictures import decode_picture
from medheb.manifest.base import Strict

MIMIC = "mimic_cxr"
REPORTS = "mimic-cxr"
FILES = "files"
TABLE = "mimic-cxr-2.0.0-{}.csv"
TABLES = tuple(TABLE.format(name) + end for name in ("metadata", "split") for end in (".gz", ""))
TREES = tuple(f"{FILES}/{group}" for group in GROUPS)
FRONTAL = ("PA", "AP")
NUMBER = re.compile(r"\d{1,12}")
NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
PATH = re.compile(r"(?:files/)?(p\d{2}/p\d{1,12}/s\d{1,12}/[0-9A-Za-z][0-9A-Za-z._-]*\.jpe?g)")


class MimicOptions(Strict):
    """Settings that all sources over MIMIC-CXR share.

    Args:
        mimic_version: names the folder of the layout that leads to the copy.
    """

    mimic_version: str = "2.0.0"


@dataclass(frozen=True)
class Study:
    """A study and the picture that stands for it."""

    study: str
    subject: str
    dicom: str
    view: str

    @property
    def picture(self) -> str:
        """Path of the picture below the folder ``files``."""
        return picture_path(self.subject, self.study, self.dicom)


def picture_path(subject: str, study: str, dicom: str) -> str:
    """Where MIMIC-CXR-JPG has a picture, below its folder ``files``."""
    return f"p{subject[:2]}/p{subject}/s{study}/{dicom}.jpg"


def sound_ids(row: Row, numbers: Collection[str], names: Collection[str], faults: list[Fault]) -> bool:
    """Whether ids can be parts of a path; puts the row aside if not."""
    if all(NUMBER.fullmatch(number) for number in numbers) and all(NAME.fullmatch(name) for name in names):
        return True
    faults.append(row.fault("has an id that MIMIC-CXR does not use"))
    return False


def jpg_root(source: Source) -> Path | None:
    """Root of the copy with the pictures, the one that has ``files``; None if the source's folder has none.

    Raises:
        MedhebError: there are two.
    """
    among = source.other(MIMIC) if MIMIC in source.dataset.requires else source.files
    found = source.folders_with(*TABLES, *TREES, among=among)
    with_tables = [folder for folder in found if any((folder / table).exists() for table in TABLES)]
    with_trees = [folder for folder in with_tables or found if any((folder / tree).is_dir() for tree in TREES)]
    if len(with_trees) > 1:
        raise MedhebError(source.dataset.id, "finds more than one copy of MIMIC-CXR", "Name the folder of one of them")
    return with_trees[0] if with_trees else None


def report_root(source: Source) -> Path | None:
    """Root of the copy with the reports, which may be the one with the pictures; None if there is none."""
    if REPORTS in source.others:
        return source.others[REPORTS]
    pictures = jpg_root(source)
    found = [folder for folder in source.folders_with(*TREES) if folder != pictures]
    return found[0] if found else pictures


def table_of(root: Path, name: str) -> Path:
    """The table ``metadata`` or ``split`` of a copy, packed or not.

    Raises:
        MedhebError: it is not there.
    """
    path = root / TABLE.format(name)
    packed = path.with_name(path.name + ".gz")
    if packed.is_file():
        return packed
    if path.is_file():
        return path
    raise MedhebError(packed.name, "is missing from the copy of MIMIC-CXR", "Download it and verify the copy again")


def frontal_pictures(root: Path, wanted: Collection[str], faults: list[Fault]) -> Mapping[str, Study]:
    """The first frontal picture of each wanted study that has one: PA before AP, then by name.

    Args:
        root: of the copy with the pictures.
        wanted: study ids.
        faults: receives rows with ids that cannot be.
    """
    best: dict[str, Study] = {}
    for row in rows_of(table_of(root, "metadata"), ("dicom_id", "subject_id", "study_id", "ViewPosition"), faults):
        study, view = row.cells["study_id"], row.cells["ViewPosition"]
        if study not in wanted or view not in FRONTAL:
            continue
        subject, dicom = row.cells["subject_id"], row.cells["dicom_id"]
        if not sound_ids(row, [subject, study], [dicom], faults):
            continue
        other = best.get(study)
        if other is None or (FRONTAL.index(view), dicom) < (FRONTAL.index(other.view), other.dicom):
            best[study] = Study(study, subject, dicom, view)
    return best


def link_picture(
    out: Output, root: Path, path: str, release: bool = False, prefix: str = "", **facts: Fact
) -> Image.Image:
    """List a picture of the copy, and give its pixels.

    Args:
        out: of the unit.
        root: of the copy with the pictures.
        path: below its folder ``files``.
        release: keep unusual pixel formats, as the published programs do.
        prefix: ``files/`` if the tasks name pictures so.
        facts: of the inventory.

    Raises:
        MedhebError: missing or damaged.
    """
    original = root / FILES / path
    try:
        content = original.read_bytes()
    except FileNotFoundError as error:
        raise MedhebError(original, "is missing from the copy of MIMIC-CXR", "Verify the copy again") from error
    # Digests are those of the file as it is, whatever becomes of its pixels in a crop.
    image = decode_picture(content, original, modes=Modes.AS_STORED, orientation="keep").image
    digest, grey = picture_digests(image)
    everything: dict[str, Fact] = {
        "kind": "xray",
        "member": path,
        "mode": image.mode,
        "width": image.width,
        "height": image.height,
        "transform": "bytes as stored",
        AS_GREY: grey,
        **facts,
    }
    out.link(prefix + path, original, everything, sha256_bytes(content), digest, len(content))
    return image if release else convert(image, Modes.EIGHT_BIT, original)[0]


def link_folders(source: Source, staging: Path, version: str) -> None:
    """Make the links of an image folder that is still being made, if there is a copy to link to."""
    root = jpg_root(source)
    if root is None:
        return
    place = staging.parent / SHARED / version / FILES
    # A copy that lies in the layout itself needs no link to it.
    if os.path.realpath(place) != os.path.realpath(root / FILES) or place.is_symlink():
        link_shared(staging.parent, root, version)
    link_folder(staging, version)
