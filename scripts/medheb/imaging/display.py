"""Cut planes as a radiologist looks at them: the patient's right on the left of the picture."""

from __future__ import annotations

from medheb.imaging.volume import Array, Volume


def axial(array: Array, index: int) -> Array:
    """Axial plane ``index`` of a RAS array (X, Y, Z): rows from front to back, columns from right to left. (Y, X)."""
    picture: Array = array[::-1, ::-1, index].T
    return picture


def coronal(array: Array, index: int) -> Array:
    """Coronal plane ``index`` of a RAS array (X, Y, Z): rows from head to feet, columns from right to left. (Z, X)."""
    picture: Array = array[::-1, index, ::-1].T
    return picture


def axial_spacing(volume: Volume) -> tuple[float, float]:
    """Row and column size in mm of an axial picture."""
    x, y, _ = volume.spacing
    return y, x


def coronal_spacing(volume: Volume) -> tuple[float, float]:
    """Row and column size in mm of a coronal picture."""
    x, _, z = volume.spacing
    return z, x
