"""Slabs of a CT as stacks of thick coronal slices, each with the radiograph that is projected from it."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import Field

from medheb.build.inventory import Fact
from medheb.build.output import Output
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.imaging.crops import square_pixels
from medheb.imaging.display import coronal, coronal_spacing
from medheb.imaging.drr.geometry import Geometry
from medheb.imaging.drr.xray import Projector, XraySettings, project
from medheb.imaging.sampling import uniform_indices
from medheb.imaging.volume import Array, Volume
from medheb.imaging.windows import Picture, to_uint8, window_range
from medheb.manifest.base import Strict

VIEW: Literal["AP"] = "AP"
TISSUE_HU = -300
MIN_TISSUE = 0.05


class RadiographOptions(Strict):
    """Slabs of fixed height, moved up the body by a fixed step; each slab is one case."""

    height_mm: float = Field(gt=0, description="height of a slab")
    step_mm: float = Field(gt=0, description="from one slab to the next")
    parts: int = Field(ge=1, description="thick coronal slices from back to front, each the mean of its part")
    level: float = Field(description="CT window of the coronal slices")
    width: float = Field(gt=0)
    longest: int = Field(ge=32, le=256, description="pixels of the longer side")
    projector: Projector = Field(default="cone", description="what makes the radiographs (docs/drr.md)")


def _body_depth(volume: Volume) -> tuple[int, int]:
    """Rearmost and foremost coronal index of the body: a twentieth of the plane or more is tissue."""
    share = [float((volume.array[:, y, :] > TISSUE_HU).mean()) for y in range(volume.shape[1])]
    inside = [y for y, tissue in enumerate(share) if tissue >= MIN_TISSUE]
    if not inside:
        raise MedhebError(volume.where, f"holds no body: hardly a voxel above {TISSUE_HU} HU", "Give a CT in HU")
    return inside[0], inside[-1]


def thick_slice(array: Array, start: int, stop: int) -> Array:
    """Mean over y from ``start`` to ``stop`` (exclusive), kept as an axis of length 1.

    Sums of whole numbers are exact in float64, so the result does not depend on the order of additions.
    """
    mean: Array = array[:, start:stop].mean(axis=1, dtype=np.float64, keepdims=True)
    return mean


def _part(volume: Volume, bottom: int, slab: Array) -> Volume:
    """Slices from ``bottom`` up as a volume of their own, where they lie in the body."""
    affine = volume.affine.copy()
    affine[:3, 3] += volume.affine[:3, 2] * bottom
    return Volume(slab, affine, volume.where)


def radiograph(slab: Volume, options: RadiographOptions) -> Picture:
    """Radiograph of a slab, cut to it: uint8 (H, W) with the longer side of ``options.longest`` pixels.

    Raises:
        MedhebError: the slab is no CT in HU, or the projector does not run here.
    """
    if options.projector == "release":
        finest = min(slab.spacing[0], slab.spacing[2])
        return square_pixels(project(slab, "release").picture, (finest, finest), options.longest)
    geometry = Geometry(view=VIEW)
    wide, high = (slab.shape[axis] * slab.spacing[axis] * geometry.magnification for axis in (0, 2))
    geometry = Geometry(view=VIEW, detector_mm=max(wide, high), pixels=options.longest)
    picture = project(slab, options.projector, XraySettings(geometry)).picture
    rows, columns = (min(options.longest, round(side / geometry.pixel_mm)) for side in (high, wide))
    top, left = (options.longest - rows) // 2, (options.longest - columns) // 2
    return np.ascontiguousarray(picture[top : top + rows, left : left + columns])


def write_radiographs(source: Source, out: Output, volume: Volume, options: RadiographOptions) -> None:
    """Write ``xray/<case>.png`` and ``slabs/<case>/slice_###.png`` for every slab.

    Raises:
        MedhebError: the scan is lower than one slab, or holds no body as deep as the parts.
    """
    thickness = round(options.height_mm / volume.spacing[2])
    step = max(1, round(options.step_mm / volume.spacing[2]))
    if thickness < 1 or thickness > volume.shape[2]:
        raise MedhebError(
            volume.where,
            f"is {volume.shape[2] * volume.spacing[2]:.0f} mm high, less than one slab",
            f"Lower height_mm ({options.height_mm:g}) of {source.dataset.id}",
        )
    back, front = _body_depth(volume)
    edges = uniform_indices(back, front + 1, options.parts + 1)
    low, high = window_range(options.level, options.width)
    for level, bottom in enumerate(range(0, volume.shape[2] - thickness + 1, step)):
        slab = volume.array[:, :, bottom : bottom + thickness]
        xray = radiograph(_part(volume, bottom, slab), options)
        case = f"slab_{level:02d}"
        facts: dict[str, Fact] = {"case": f"{source.dataset.id}/{case}", "level": level, "subject": source.dataset.id}
        out.picture(
            f"xray/{case}.png", xray, kind="xray", modality="X-ray", projector=options.projector, view=VIEW, **facts
        )
        for position, (start, stop) in enumerate(pairwise(edges)):
            plane = coronal(thick_slice(slab, start, stop), 0)
            out.picture(
                f"slabs/{case}/slice_{position:03d}.png",
                square_pixels(to_uint8(plane, low, high), coronal_spacing(volume), options.longest),
                kind="slab",
                modality="CT",
                **facts,
            )
