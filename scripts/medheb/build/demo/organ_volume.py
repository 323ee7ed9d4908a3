"""Recipe ``organ_volume``: one person's scan and its organ masks become crops, slices, organ volumes and slabs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from medheb.build.demo.findings import findings_line
from medheb.build.demo.grey import GreyRange, grey_range
from medheb.build.demo.labels import Label, LabelledScan, merge_masks, read_label_map
from medheb.build.demo.radiographs import RadiographOptions, write_radiographs
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.imaging.crops import crop_square, mask_box, square_pixels
from medheb.imaging.dicom import read_dicom_series
from medheb.imaging.display import axial, axial_spacing
from medheb.imaging.nifti import read_nifti
from medheb.imaging.sampling import spread, uniform_indices
from medheb.imaging.volume import Volume
from medheb.imaging.windows import Picture, to_uint8
from medheb.manifest.base import RelativePath, Strict

MIN_STRUCTURES = 3
MIN_RELATIVE_AREA = 0.25


class CropOptions(Strict):
    """Axial pictures centred on a structure."""

    per_label: int = Field(ge=1, description="at most this many slices a structure")
    field_of_view: float = Field(gt=0, description="side of the square in mm")
    side: int = Field(ge=32, le=224, description="pixels")


class SliceOptions(Strict):
    """Whole axial slices."""

    step: int = Field(ge=1, description="every how many slices")
    longest: int = Field(ge=32, le=256, description="pixels of the longer side")


class OrganVolumeOptions(CropOptions):
    """Stacks of axial pictures around a structure."""

    per_label: int = Field(ge=2, description="slices of a stack")


class OrganOptions(Strict):
    """Settings of ``organ_volume``."""

    scan: RelativePath = Field(description="NIfTI file or DICOM folder")
    format: Literal["nifti", "dicom"]
    modality: Literal["CT", "MR"]
    grey: GreyRange
    label_map: RelativePath | None = Field(default=None, description="NIfTI label map that names its labels")
    masks: dict[str, RelativePath] = Field(default_factory=dict, description="or one mask file a structure")
    min_millilitres: float = Field(default=1.0, ge=0, description="smaller structures are left out, and noted")
    captions: bool = Field(default=False, description="mark crops and slices for fitting an image-text bridge")
    crops: CropOptions
    slices: SliceOptions
    volumes: OrganVolumeOptions
    radiographs: RadiographOptions | None = None

    @model_validator(mode="after")
    def _one_kind_of_mask(self) -> OrganOptions:
        if (self.label_map is None) == (not self.masks):
            raise ValueError("either label_map or masks")
        return self


def _read_scan(source: Source, options: OrganOptions) -> Volume:
    path = source.path(options.scan)
    return read_dicom_series(path) if options.format == "dicom" else read_nifti(path)


def _crop_slices(scan: LabelledScan, value: int, count: int) -> list[int]:
    """Slices that show a fair share of the structure, spread from its lower to its upper end."""
    label = scan.labels[value]
    areas = {index: int(scan.mask(value, index).sum()) for index in range(label.box.start[2], label.box.stop[2])}
    enough = max(areas.values()) * MIN_RELATIVE_AREA
    return spread([index for index, area in areas.items() if area >= enough], count)


class _Writer:
    """What all pictures of one scan share."""

    def __init__(self, source: Source, out: Output, options: OrganOptions) -> None:
        self.out = out
        self.options = options
        self.volume = _read_scan(source, options)
        self.low, self.high = grey_range(self.volume, options.grey)
        self.spacing = axial_spacing(self.volume)
        self.subject = source.dataset.id

    def plane(self, index: int) -> Picture:
        """Axial slice as a picture."""
        return to_uint8(axial(self.volume.array, index), self.low, self.high)

    def facts(self, label: Label) -> dict[str, str | None]:
        """What tasks may ask about a structure."""
        return {
            "label": label.structure.label,
            "group": label.structure.group,
            "side": label.structure.side,
            "system": label.structure.system,
            "modality": self.options.modality,
            "subject": self.subject,
        }

    def write_crops(self, scan: LabelledScan, value: int) -> None:
        """Fixed field of view around the structure's box in each chosen slice."""
        crops, label = self.options.crops, scan.labels[value]
        for index in _crop_slices(scan, value, crops.per_label):
            box = mask_box(axial(scan.values, index) == value, f"label {label.name}, slice {index}")
            row, column = box.centre
            pixels = crop_square(self.plane(index), (row, column), crops.field_of_view, self.spacing, crops.side)
            caption = {"caption": label.structure.label} if self.options.captions else {}
            self.out.picture(
                f"crops/{label.name}_{index:03d}.png",
                pixels,
                kind="crop",
                slice=index,
                **self.facts(label),
                **caption,
            )

    def write_volume(self, scan: LabelledScan, value: int) -> None:
        """Stack of slices through the structure, all centred on its box."""
        volumes, label = self.options.volumes, scan.labels[value]
        x, y, _ = label.box.centre
        # Pictures run from the patient's right to left and from front to back: both axes are turned.
        centre = (self.volume.shape[1] - y, self.volume.shape[0] - x)
        indices = uniform_indices(label.box.start[2], label.box.stop[2] - 1, volumes.per_label)
        for position, index in enumerate(indices):
            pixels = crop_square(self.plane(index), centre, volumes.field_of_view, self.spacing, volumes.side)
            self.out.picture(
                f"voi/{label.name}/slice_{position:03d}.png",
                pixels,
                kind="voi",
                case=f"{self.subject}/{label.name}",
                slice=index,
                **self.facts(label),
            )

    def write_slices(self, scan: LabelledScan) -> int:
        """Whole slices with enough structures for a findings line. Returns how many had too few."""
        poor = 0
        for index in range(0, self.volume.shape[2], self.options.slices.step):
            areas = {scan.labels[value].structure: count for value, count in scan.areas(index).items()}
            if len(areas) < MIN_STRUCTURES:
                poor += 1
                continue
            pixel_cm2 = self.volume.spacing[0] * self.volume.spacing[1] / 100
            text = findings_line({found: count * pixel_cm2 for found, count in areas.items()})
            caption = {"caption": text} if self.options.captions else {}
            self.out.picture(
                f"slices/slice_{index:03d}.png",
                square_pixels(self.plane(index), self.spacing, self.options.slices.longest),
                kind="slice",
                slice=index,
                text=text,
                modality=self.options.modality,
                subject=self.subject,
                **caption,
            )
        return poor


def organ_volume(source: Source, _: Unit, out: Output) -> None:
    """Build one person's scan. See :class:`OrganOptions` for the settings.

    Raises:
        MedhebError: unreadable scan or masks, masks of another grid, empty labels.
    """
    options = source.options(OrganOptions)
    writer = _Writer(source, out, options)
    if options.label_map is not None:
        scan = read_label_map(source.path(options.label_map), writer.volume)
    else:
        named = ((name, source.path(path)) for name, path in sorted(options.masks.items()))
        scan = merge_masks(named, writer.volume)
    small = [value for value, label in scan.labels.items() if label.millilitres < options.min_millilitres]
    for value in sorted(set(scan.labels) - set(small)):
        writer.write_crops(scan, value)
        writer.write_volume(scan, value)
    if small:
        names = ", ".join(sorted(scan.labels[value].structure.label for value in small))
        out.note(f"structures under {options.min_millilitres:g} ml got no crops: {names}")
    poor = writer.write_slices(scan)
    if poor:
        out.note(f"slices with fewer than {MIN_STRUCTURES} structures, which got no findings line: {poor}")
    if options.radiographs is not None:
        write_radiographs(source, out, writer.volume, options.radiographs)


RECIPE = Recipe(organ_volume)
