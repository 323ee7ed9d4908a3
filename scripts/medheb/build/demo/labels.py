"""Masks of named structures on the grid of their scan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from medheb.build.demo.anatomy import Structure, structure
from medheb.core.errors import MedhebError
from medheb.imaging.crops import Box, mask_box
from medheb.imaging.nifti import read_label_names, read_nifti
from medheb.imaging.volume import Array, Volume, on_grid_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Label:
    """One structure in a scan.

    Args:
        name: as the label map has it; part of file names.
        structure: as texts have it.
        box: around its voxels, in RAS index order.
        millilitres: its volume.
    """

    name: str
    structure: Structure
    box: Box
    millilitres: float


@dataclass(frozen=True)
class LabelledScan:
    """Label values per voxel (0 is nothing) and what each value stands for."""

    values: Array
    labels: dict[int, Label]

    def mask(self, value: int, index: int) -> Mask:
        """Axial mask of one label in RAS index order, shape (X, Y)."""
        plane: Mask = self.values[:, :, index] == value
        return plane

    def areas(self, index: int) -> dict[int, int]:
        """Voxels of each label in an axial plane, absent labels left out."""
        present, counts = np.unique(self.values[:, :, index], return_counts=True)
        return {
            int(value): int(count) for value, count in zip(present, counts, strict=True) if int(value) in self.labels
        }


def _describe(values: Array, value: int, name: str, volume: Volume, where: Path) -> Label:
    box = mask_box(values == value, f"{where}, label {name}")
    inside = values[tuple(slice(a, b) for a, b in zip(box.start, box.stop, strict=True))] == value
    millilitres = int(inside.sum()) * float(np.prod(volume.spacing)) / 1000
    return Label(name, structure(name, str(where)), box, millilitres)


def read_label_map(path: Path, volume: Volume) -> LabelledScan:
    """All labels of a label map that names them in its header.

    Raises:
        MedhebError: another grid than the scan's, fractions as values, or a value without a name.
    """
    values = on_grid_of(read_nifti(path), volume)
    if values.dtype.kind not in "iu":
        raise MedhebError(path, f"holds {values.dtype} values, not whole labels", "Give a label map of integers")
    names = read_label_names(path)
    present = [int(value) for value in np.unique(values) if value != 0]
    unnamed = [value for value in present if value not in names]
    if unnamed:
        raise MedhebError(path, f"holds label {unnamed[0]}, which its header does not name", "Get an undamaged copy")
    if not present:
        raise MedhebError(path, "is empty: not one labelled voxel", "Give the mask that belongs to the scan")
    return LabelledScan(values, {value: _describe(values, value, names[value], volume, path) for value in present})


def merge_masks(masks: Iterator[tuple[str, Path]], volume: Volume) -> LabelledScan:
    """One mask file a structure, laid on the scan in the given order; a later mask wins where two overlap.

    Raises:
        MedhebError: another grid than the scan's, or an empty mask.
    """
    values = np.zeros(volume.shape, dtype=np.uint8)
    read: list[tuple[str, Path]] = []
    for name, path in masks:
        mask = on_grid_of(read_nifti(path), volume) > 0
        mask_box(mask, f"{path}, label {name}")
        read.append((name, path))
        values[mask] = len(read)
    return LabelledScan(
        values, {value: _describe(values, value, name, volume, path) for value, (name, path) in enumerate(read, 1)}
    )
