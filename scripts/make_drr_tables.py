"""Generate the table of the ``cone`` projector from xraylib and SpekPy.

Both stay out of the workflow's environment; the table is a few kilobytes and shipped. To make it again:

    python -m venv tables && tables/bin/pip install xraylib==4.3.0 spekpy==2.5.4
    tables/bin/python scripts/make_drr_tables.py scripts/medheb/imaging/drr/tables.json

Mass attenuation: total cross sections of xraylib (BSD licence), summed over the mass fractions of ICRU Report 44, at
the energies of the NIST tables; in between, the projector interpolates log-log. Spectra: SpekPy (MIT licence), tungsten
target at 12 degrees, behind aluminium.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import spekpy
import xraylib

ENERGIES_KEV = (10, 15, 20, 30, 40, 50, 60, 80, 100, 150)
# Mass fractions by atomic number: ICRU-44 cortical bone and soft tissue, dry air near sea level.
MATERIALS = {
    "air": {6: 0.000124, 7: 0.755268, 8: 0.231781, 18: 0.012827},
    "bone": {
        1: 0.034,
        6: 0.155,
        7: 0.042,
        8: 0.435,
        11: 0.001,
        12: 0.002,
        15: 0.103,
        16: 0.003,
        20: 0.225,
    },
    "soft": {
        1: 0.102,
        6: 0.143,
        7: 0.034,
        8: 0.708,
        11: 0.002,
        15: 0.003,
        16: 0.003,
        17: 0.002,
        19: 0.003,
    },
}
# Name: tube voltage in kV, aluminium in mm.
SPECTRA = {"60KV_AL35": (60, 3.5), "90KV_AL40": (90, 4.0), "120KV_AL43": (120, 4.3)}
TARGET_DEGREES, PHYSICS, BIN_KEV, LOWEST_KEV = 12, "casim", 0.5, 15


def attenuation(fractions: dict[int, float]) -> list[float]:
    """Total mass attenuation in cm2/g at the energies of the grid."""
    return [
        float(f"{sum(share * xraylib.CS_Total(z, float(kev)) for z, share in fractions.items()):.6g}")
        for kev in ENERGIES_KEV
    ]


def spectrum(kilovolts: float, aluminium_mm: float) -> dict[str, object]:
    """Share of photons per energy bin from 15 keV on; the shares sum to 1."""
    beam = spekpy.Spek(kvp=kilovolts, th=TARGET_DEGREES, dk=BIN_KEV, physics=PHYSICS)
    beam.filter("Al", aluminium_mm)
    energies, fluence = beam.get_spectrum(edges=False)
    kept = [(float(k), float(f)) for k, f in zip(energies, fluence, strict=True) if k >= LOWEST_KEV and f > 0]
    total = sum(f for _, f in kept)
    return {
        "kilovolts": kilovolts,
        "aluminium_mm": aluminium_mm,
        "first_kev": kept[0][0],
        "bin_kev": BIN_KEV,
        "share": [float(f"{f / total:.6g}") for _, f in kept],
    }


def main() -> None:
    """Write the table to the path given."""
    table = {
        "origin": {
            "made_by": "scripts/make_drr_tables.py",
            "attenuation": f"xraylib {version('xraylib')}, total cross sections, mass fractions of ICRU Report 44",
            "spectra": f"SpekPy {version('spekpy')}, {PHYSICS}, tungsten target, {TARGET_DEGREES} degrees",
        },
        "energies_kev": ENERGIES_KEV,
        "attenuation_cm2_per_g": {name: attenuation(fractions) for name, fractions in MATERIALS.items()},
        "spectra": {name: spectrum(*settings) for name, settings in SPECTRA.items()},
    }
    Path(sys.argv[1]).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
