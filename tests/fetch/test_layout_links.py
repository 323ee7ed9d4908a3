"""One copy of MIMIC-CXR shows in the four folders of the card, with and without ``files/``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder
from medheb.fetch.links import GROUPS, link_folder, link_shared

FOLDERS = ("ChestImagrome", "MIMIC-CXR-Report", "MIMIC-CXR-T", "MIMIC-CXR-VQA")
NAME = "p17/p17999999/s57999999/picture.jpg"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy with all groups and one picture."""
    root = tmp_path / "private/physionet.org/files/mimic-cxr-jpg/2.0.0"
    for group in GROUPS:
        (root / "files" / group).mkdir(parents=True)
    (root / "files" / NAME).parent.mkdir(parents=True)
    (root / "files" / NAME).write_bytes(b"picture")
    return root


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "MedHEB/2D_Images"


def link_mimic(images: Path, root: Path, version: str) -> None:
    """All links of the card, as the recipes of its four folders make them together."""
    link_shared(images, root, version)
    for name in FOLDERS:
        link_folder(images / name, version)


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    """Every link below ``folder`` with its text and inode."""
    links = [path for path in sorted(folder.rglob("*")) if path.is_symlink()]
    return {path.relative_to(folder).as_posix(): (str(path.readlink()), path.lstat().st_ino) for path in links}


def test_both_forms_of_a_path_resolve_in_all_four_folders(root: Path, images: Path) -> None:
    link_mimic(images, root, "2.0.0")
    for folder in FOLDERS:
        assert (images / folder / NAME).read_bytes() == b"picture"
        assert (images / folder / "files" / NAME).read_bytes() == b"picture"
        assert sorted(path.name for path in (images / folder).iterdir()) == sorted(["files", *GROUPS])
    links = tree(images)
    assert links["MIMIC-CXR-T/p17"][0] == "../mimic_original/2.0.0/files/p17"
    assert links["mimic_original/2.0.0/files"][0] == str(root / "files")
    assert sum(text.startswith("/") for text, _ in links.values()) == 1
    assert len(links) == 1 + 4 * 11


def test_a_second_time_changes_nothing_and_a_moved_copy_changes_one_link(root: Path, images: Path) -> None:
    link_mimic(images, root, "2.0.0")
    before = tree(images)
    link_mimic(images, root, "2.0.0")
    assert tree(images) == before
    moved = root.parents[4] / "moved"
    shutil.move(root, moved)
    link_mimic(images, moved, "2.0.0")
    after = tree(images)
    assert [name for name in before if after[name] != before[name]] == ["mimic_original/2.0.0/files"]
    assert (images / "ChestImagrome" / NAME).read_bytes() == b"picture"


def test_links_survive_a_move_of_the_benchmark(root: Path, images: Path, tmp_path: Path) -> None:
    link_mimic(images, root, "2.0.0")
    shutil.move(images.parent, tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere/2D_Images/MIMIC-CXR-VQA/files" / NAME).read_bytes() == b"picture"


def test_links_made_in_a_staging_folder_work_after_its_rename(root: Path, images: Path) -> None:
    link_shared(images, root, "2.0.0")
    with atomic_folder(images / "MIMIC-CXR-T") as staging:
        link_folder(staging, "2.0.0")
    assert (images / "MIMIC-CXR-T" / NAME).read_bytes() == b"picture"


def test_a_new_version_replaces_the_links_and_drops_groups_it_lacks(root: Path, images: Path, tmp_path: Path) -> None:
    link_mimic(images, root, "2.0.0")
    small = tmp_path / "small"
    (small / "files/p10").mkdir(parents=True)
    link_mimic(images, small, "2.1.0")
    assert sorted(path.name for path in (images / "MIMIC-CXR-T").iterdir()) == ["files", "p10"]
    assert str((images / "MIMIC-CXR-T/files").readlink()) == "../mimic_original/2.1.0/files"


@pytest.mark.parametrize("kind", ["folder", "file"])
@pytest.mark.parametrize("place", ["MIMIC-CXR-Report/p13", "MIMIC-CXR-VQA/files", "mimic_original/2.0.0/files"])
def test_real_files_and_folders_are_never_replaced(kind: str, place: str, root: Path, images: Path) -> None:
    (images / place).parent.mkdir(parents=True)
    if kind == "folder":
        (images / place / "inner").mkdir(parents=True)
    else:
        (images / place).write_bytes(b"mine")
    with pytest.raises(MedhebError, match=r"is a real file or folder where a link must be. Move it away"):
        link_mimic(images, root, "2.0.0")
    assert (images / place / "inner").is_dir() if kind == "folder" else (images / place).read_bytes() == b"mine"
    assert not [path for path in images.rglob("*") if ".part." in path.name]


def test_what_cannot_be_linked(root: Path, images: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MedhebError, match="has no folder 'files'"):
        link_mimic(images, tmp_path / "empty", "2.0.0")
    with pytest.raises(MedhebError, match=r"cannot be named by version '\.\./up'"):
        link_shared(images, root, "../up")
    with pytest.raises(MedhebError, match="does not lead to a copy of MIMIC-CXR"):
        link_folder(images / "MIMIC-CXR-T", "2.0.0")
