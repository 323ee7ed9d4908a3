"""One interface for the three projectors: from a CT to a picture and the facts about how it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.drr import release
from medheb.imaging.drr.beam import DEFAULT_SPECTRUM, Beam, load_beam
from medheb.imaging.drr.cone import areal_density
from medheb.imaging.drr.deepdrr_runner import check_spectrum, project_deepdrr
from medheb.imaging.drr.geometry import Geometry
from medheb.imaging.drr.normalise import (
    BODY_ATTENUATION,
    NORMALISATIONS,
    Normalisation,
    attenuation,
    body_range,
    picture,
)
from medheb.imaging.drr.preparation import Float32
from medheb.imaging.volume import Volume
from medheb.imaging.windows import Picture

Projector = Literal["release", "cone", "deepdrr"]
PROJECTORS: tuple[Projector, ...] = get_args(Projector)
# Raised whenever a projector's pictures change.
VERSIONS: dict[Projector, int] = {"release": 1, "cone": 1, "deepdrr": 1}


@dataclass(frozen=True)
class XraySettings:
    """Settings of ``cone`` and ``deepdrr``; ``release`` has none.

    Args:
        geometry: the view.
        spectrum: one of the names in the table of spectra.
        normalisation: "body", percentiles over the body, or "deepdrr", DeepDRR's own display.
        deepdrr_python: interpreter of DeepDRR's environment; without it the environment variable decides.
    """

    geometry: Geometry = field(default_factory=Geometry)
    spectrum: str = DEFAULT_SPECTRUM
    normalisation: Normalisation = "body"
    deepdrr_python: str | None = None

    def __post_init__(self) -> None:
        if self.normalisation not in NORMALISATIONS:
            raise MedhebError(
                "X-ray settings",
                f"have the unknown normalisation {self.normalisation!r}",
                f"Use one of: {', '.join(NORMALISATIONS)}",
            )


@dataclass(frozen=True)
class Xray:
    """A radiograph.

    Args:
        picture: uint8 (H, W), bone bright, the patient's left on the right, the head on top.
        sidecar: how it was made, for JSON: projector and its version, geometry, spectrum, normalisation, warnings.
        logarithm: -ln(I / I0), float32 (H, W), before any windowing; None for ``release``.
    """

    picture: Picture
    sidecar: dict[str, Any]
    logarithm: Float32 | None = None


def project(volume: Volume, projector: Projector, settings: XraySettings | None = None) -> Xray:
    """Radiograph of a CT.

    ``release`` gives what the published script gives for this volume stored in LPS order; for a file in another
    order, feed its slices as stored to :class:`medheb.imaging.drr.release.ReleaseProjection`.

    Args:
        volume: HU in canonical order, as the readers give it.
        projector: which of the three.
        settings: for ``cone`` and ``deepdrr``; defaults if None.

    Raises:
        MedhebError: unknown projector or spectrum, not HU, a sheared grid, voxels that are not numbers.
        DeepdrrError: DeepDRR does not run here.
    """
    settings = settings or XraySettings()
    if projector == "release":
        made = release.project(volume.array[::-1, ::-1], volume.spacing, volume.where)
        return Xray(made, release_sidecar())
    if projector == "cone":
        beam = load_beam(settings.spectrum)
        return _xray(beam.intensity(areal_density(volume, settings.geometry)), beam, projector, settings, {})
    if projector == "deepdrr":
        check_spectrum(settings.spectrum)
        result = project_deepdrr(volume, settings.geometry, settings.spectrum, settings.deepdrr_python)
        return _xray(result.intensity, result.beam, projector, settings, result.software)
    raise MedhebError("X-ray projector", f"{projector!r} is unknown", f"Use one of: {', '.join(PROJECTORS)}")


def release_sidecar() -> dict[str, Any]:
    """Facts about a picture of the published closed form."""
    return {
        "projector": "release",
        "projector_version": VERSIONS["release"],
        "geometry": {"beam": "parallel", "along": "second stored axis"},
        "spectrum": None,
        "normalisation": "percentiles 0.5 and 99.5 of the transmission, cropped to the body",
    }


def _xray(
    intensity: Float32, beam: Beam, projector: Projector, settings: XraySettings, software: dict[str, Any]
) -> Xray:
    logarithm = attenuation(intensity, beam.mean_kev)
    low, high = body_range(logarithm)
    body = logarithm > BODY_ATTENUATION
    sidecar = {
        "projector": projector,
        "projector_version": VERSIONS[projector],
        "geometry": settings.geometry.facts(),
        "spectrum": {"name": beam.name, "mean_kev": round(beam.mean_kev, 4), "origin": beam.origin},
        "normalisation": settings.normalisation,
        "body_attenuation": [round(low, 4), round(high, 4)],
        # The detector is smaller than a wide field of view: a body that reaches a side of the picture is cut there.
        "cut_at_side": bool(body[:, 0].any() or body[:, -1].any()),
        "software": software,
    }
    made = picture(intensity, beam.mean_kev, settings.normalisation)
    return Xray(np.ascontiguousarray(made), sidecar, logarithm)
