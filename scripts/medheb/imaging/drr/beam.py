"""What tube and tissue do to each energy: spectra, mass attenuation, and the signal behind a path.

The numbers are in ``tables.json``, which says where they come from; ``scripts/make_drr_tables.py`` makes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError

MATERIALS = ("air", "bone", "soft")
DEFAULT_SPECTRUM = "90KV_AL40"
CHUNK_PIXELS = 8192

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Beam:
    """A spectrum and how much each material takes out of it.

    Args:
        name: of the spectrum.
        energies: keV of each bin, (n,).
        share: of the photons in each bin, (n,), summing to 1.
        attenuation: total mass attenuation in cm2/g of air, bone and soft tissue in each bin, (n, 3).
        origin: where the numbers come from.
    """

    name: str
    energies: Float64
    share: Float64
    attenuation: Float64
    origin: dict[str, str] = field(default_factory=dict)

    @property
    def mean_kev(self) -> float:
        """Mean energy, which is the signal of a photon that meets nothing."""
        return float(self.energies @ self.share)

    def intensity(self, areal: Float32) -> Float32:
        """Energy that reaches an energy-integrating detector, in keV per emitted photon.

        Args:
            areal: air, bone and soft tissue along each path in g/cm2, (3, H, W).

        Returns:
            (H, W).
        """
        paths = areal.reshape(3, -1)
        weight = (self.energies * self.share).astype(np.float32)
        attenuation = (-self.attenuation).astype(np.float32)
        signal = np.empty(paths.shape[1], dtype=np.float32)
        for start in range(0, len(signal), CHUNK_PIXELS):
            here = slice(start, start + CHUNK_PIXELS)
            through = attenuation @ paths[:, here]
            signal[here] = weight @ np.exp(through, out=through)
        return signal.reshape(areal.shape[1:])


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files(__package__).joinpath("tables.json").read_text(encoding="utf-8"))
    return table


def spectra() -> list[str]:
    """Names of the spectra at hand."""
    return sorted(_table()["spectra"])


def load_beam(name: str = DEFAULT_SPECTRUM) -> Beam:
    """The named spectrum with the attenuation at its energies.

    Raises:
        MedhebError: no such spectrum.
    """
    table = _table()
    if name not in table["spectra"]:
        raise MedhebError("X-ray spectrum", f"{name!r} is unknown", f"Use one of: {', '.join(spectra())}")
    entry = table["spectra"][name]
    share = np.array(entry["share"])
    energies = entry["first_kev"] + entry["bin_kev"] * np.arange(len(share))
    nodes = np.array(table["energies_kev"], dtype=np.float64)
    columns = [table["attenuation_cm2_per_g"][material] for material in MATERIALS]
    return Beam(name, energies, share / share.sum(), interpolate(energies, nodes, np.array(columns).T), table["origin"])


def interpolate(energies: Float64, nodes: Float64, attenuation: Float64) -> Float64:
    """Mass attenuation at ``energies`` (n,) from its values (k, m) at ``nodes`` (k,): straight in log-log. (n, m)."""
    return np.stack(
        [np.exp(np.interp(np.log(energies), np.log(nodes), np.log(column))) for column in attenuation.T], axis=1
    )
