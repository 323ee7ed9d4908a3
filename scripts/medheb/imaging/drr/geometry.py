"""Where tube, patient and detector stand: one frontal cone-beam view, as explicit matrices.

World coordinates are the CT's own millimetres in RAS order (x to the patient's right, y to the front, z to the head).
The axis of the beam runs front-back through the middle of the volume. Pictures have the usual display of a chest
radiograph in both views: the patient's left on the right, the head on top.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Affine, Volume

View = Literal["PA", "AP"]
Vector = npt.NDArray[np.float64]

MIN_PIXELS, MAX_PIXELS = 8, 4096


@dataclass(frozen=True)
class Geometry:
    """A frontal view with the settings of a chest stand.

    Args:
        view: "PA", the tube behind the patient, or "AP", before the patient.
        source_to_detector_mm: focal spot to detector.
        source_to_centre_mm: focal spot to the middle of the volume.
        detector_mm: width and height of the square detector.
        pixels: its rows and columns.

    Raises:
        MedhebError: lengths that leave no room for a patient, or no sensible number of pixels.
    """

    view: View = "PA"
    source_to_detector_mm: float = 1800.0
    source_to_centre_mm: float = 1600.0
    detector_mm: float = 430.0
    pixels: int = 512

    def __post_init__(self) -> None:
        remedy = "Correct the X-ray settings"
        if self.view not in ("PA", "AP"):
            raise MedhebError("X-ray geometry", f"has the unknown view {self.view!r}", f"{remedy}: PA or AP")
        if not 0 < self.source_to_centre_mm <= self.source_to_detector_mm < np.inf or not 0 < self.detector_mm < np.inf:
            raise MedhebError(
                "X-ray geometry",
                f"puts the patient at {self.source_to_centre_mm:g} mm and a detector of {self.detector_mm:g} mm at "
                f"{self.source_to_detector_mm:g} mm from the tube",
                f"{remedy}: the patient stands between the two",
            )
        if not MIN_PIXELS <= self.pixels <= MAX_PIXELS:
            raise MedhebError(
                "X-ray geometry", f"asks for {self.pixels} pixels", f"{remedy}: {MIN_PIXELS} to {MAX_PIXELS}"
            )

    @property
    def pixel_mm(self) -> float:
        """Size of a square pixel on the detector."""
        return self.detector_mm / self.pixels

    @property
    def magnification(self) -> float:
        """Of what lies in the middle of the volume."""
        return self.source_to_detector_mm / self.source_to_centre_mm

    @property
    def mirrored(self) -> bool:
        """Whether the camera's view, from the source, must be mirrored for display."""
        return self.view == "PA"

    def source(self, centre: Vector) -> Vector:
        """World position (3,) of the focal spot for a volume with the middle ``centre``."""
        forward = 1.0 if self.view == "AP" else -1.0
        place: Vector = centre + np.array([0.0, forward * self.source_to_centre_mm, 0.0])
        return place

    def offsets(self) -> Vector:
        """Millimetres on the detector of pixel centres from the beam axis: to patient left, and downward. (pixels,)."""
        return (np.arange(self.pixels, dtype=np.float64) + 0.5 - self.pixels / 2) * self.pixel_mm

    def intrinsic(self) -> Affine:
        """3 x 3 camera matrix in pixels; the centre of the first pixel is (0.5, 0.5)."""
        focal = self.source_to_detector_mm / self.pixel_mm
        half = self.pixels / 2
        return np.array([[focal, 0, half], [0, focal, half], [0, 0, 1.0]])

    def camera_from_world(self, centre: Vector) -> Affine:
        """4 x 4 rigid matrix: columns of the view run along its x, rows along its y, the beam along its z.

        AP looks to the back with x to patient left; PA looks to the front with x to patient right (see ``mirrored``).
        """
        if self.view == "AP":
            axes = np.array([[-1.0, 0, 0], [0, 0, -1.0], [0, -1.0, 0]])
        else:
            axes = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])
        matrix = np.eye(4)
        matrix[:3, :3] = axes
        matrix[:3, 3] = -axes @ self.source(centre)
        return matrix

    def pixel_of(self, point: Vector, centre: Vector) -> tuple[float, float]:
        """Column and row where a world point (3,) appears in the picture; (0.5, 0.5) is the first pixel's centre."""
        camera = self.camera_from_world(centre) @ np.append(point, 1.0)
        column, row, depth = self.intrinsic() @ camera[:3]
        column, row = column / depth, row / depth
        return (self.pixels - column if self.mirrored else column), row

    def facts(self) -> dict[str, Any]:
        """What the sidecar of a picture says about its geometry."""
        return {**asdict(self), "pixel_mm": self.pixel_mm, "magnification": self.magnification}


def middle(volume: Volume) -> Vector:
    """World position (3,) of the middle of a volume: half-way between its first and its last voxel."""
    last = np.array(volume.shape, dtype=np.float64) - 1
    place: Vector = volume.affine[:3, :3] @ (last / 2) + volume.affine[:3, 3]
    return place


def corners(volume: Volume) -> Vector:
    """World positions (3, 8) of the outermost corners of the outermost voxels."""
    ends = [(-0.5, length - 0.5) for length in volume.shape]
    grid = np.stack(np.meshgrid(*ends, indexing="ij")).reshape(3, -1)
    places: Vector = volume.affine[:3, :3] @ grid + volume.affine[:3, 3:]
    return places
