"""Recipe ``brain_slabs``: levels of a head volume, at fixed fractions of the brain's own height.

Two volumes built with the same number of levels have matching levels by position within the brain's box. They
are not registered: expect a level or two of difference.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from medheb.build.demo.grey import GreyRange, grey_range
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.imaging.crops import Box, crop_square
from medheb.imaging.display import axial, axial_spacing
from medheb.imaging.nifti import read_nifti
from medheb.imaging.volume import Volume
from medheb.imaging.windows import to_uint8
from medheb.manifest.base import RelativePath, Strict


class BrainOptions(Strict):
    """Settings of ``brain_slabs``."""

    scan: RelativePath = Field(description="skull-stripped NIfTI volume")
    modality: Literal["CT", "MR T1"]
    grey: GreyRange
    foreground: float = Field(description="voxels above this value are brain")
    min_share: float = Field(gt=0, lt=1, description="share of a plane that must be brain, to fix the box")
    levels: int = Field(ge=2)
    per_level: int = Field(ge=1, description="slices of one level")
    slab_mm: float = Field(ge=0, description="distance from the first to the last slice of a level")
    margin: float = Field(ge=1, description="field of view / longer side of the box")
    side: int = Field(ge=32, le=224, description="pixels")


def brain_box(volume: Volume, foreground: float, min_share: float) -> Box:
    """Box of the planes, along each axis, of which at least ``min_share`` is brain.

    Raises:
        MedhebError: no such plane.
    """
    brain = volume.array > foreground
    starts, stops = [], []
    for axis in range(3):
        others = tuple(other for other in range(3) if other != axis)
        planes = np.flatnonzero(brain.mean(axis=others) >= min_share)
        if planes.size == 0:
            raise MedhebError(
                volume.where, f"holds hardly a voxel above {foreground:g}", "Lower recipe.options.foreground"
            )
        starts.append(int(planes[0]))
        stops.append(int(planes[-1]) + 1)
    return Box(tuple(starts), tuple(stops))


def brain_slabs(source: Source, _: Unit, out: Output) -> None:
    """Build the levels of one head volume. See :class:`BrainOptions` for the settings.

    Raises:
        MedhebError: an unreadable volume, or no brain in it.
    """
    options = source.options(BrainOptions)
    volume = read_nifti(source.path(options.scan))
    low, high = grey_range(volume, options.grey)
    box = brain_box(volume, options.foreground, options.min_share)
    x, y = box.centre[:2]
    centre = (volume.shape[1] - y, volume.shape[0] - x)
    widest = max((box.stop[axis] - box.start[axis]) * volume.spacing[axis] for axis in (0, 1))
    height = box.stop[2] - box.start[2]
    for level in range(options.levels):
        middle = box.start[2] + (level + 0.5) / options.levels * height
        case = f"level_{level:02d}"
        for position in range(options.per_level):
            shift = (position / (options.per_level - 1) - 0.5) * options.slab_mm if options.per_level > 1 else 0.0
            index = int(np.clip(np.floor(middle + shift / volume.spacing[2]), 0, volume.shape[2] - 1))
            picture = to_uint8(axial(volume.array, index), low, high)
            out.picture(
                f"slabs/{case}/slice_{position:03d}.png",
                crop_square(picture, centre, widest * options.margin, axial_spacing(volume), options.side),
                kind="slab",
                case=f"{source.dataset.id}/{case}",
                level=level,
                slice=index,
                modality=options.modality,
                subject=source.dataset.id,
            )


RECIPE = Recipe(brain_slabs)
