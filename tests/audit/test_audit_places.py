"""Further places of a source in the layout, which tasks name: each must lead to the recorded files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from audit_bench import FOLDERS, OK, PICTURES, Bench, encode, findings, pixels, unit, write_roots

from medheb.audit.record import record_digests
from medheb.audit.verdicts import EXIT_OK
from medheb.audit.verify import verify
from medheb.build.places import link_places
from medheb.manifest.dataset import Place

PLACE = "2D_Images/elsewhere"


@pytest.fixture(params=[False, True], ids=["folder", "shared"])
def placed(request: pytest.FixtureRequest, whole: Bench) -> Bench:
    """A run of which two sources, one restricted, have a further place, recorded."""
    for source, folder in (("alpha", "größe"), ("gamma", "p10")):
        place = Place(path=f"{PLACE}/{source}", folder=folder, shared=request.param)
        manifest = whole.run.datasets[source].model_copy(update={"places": (place,)})
        whole.run.datasets[source] = manifest
        names = [*PICTURES[source], *(["notes.json"] if source == "alpha" else [])]
        whole.inventory(source, names, OK)
        link_places(whole.layout.benchmark, manifest, names)
        record_digests(whole.run, source)
    write_roots(whole.run)
    return whole


def place(bench: Bench, source: str = "alpha") -> Path:
    return bench.layout.benchmark / PLACE / source


def test_places_that_lead_to_the_source_change_nothing(placed: Bench) -> None:
    for seed in (None, 1):
        verification = verify(placed.run, sample_seed=seed)
        assert verification.exit_code == EXIT_OK
        assert unit(verification, "alpha").counts.get("IDENTICAL", 0) + unit(verification, "alpha").unread == 6


def replaced(path: Path) -> None:
    """The same pictures elsewhere, and a link to them."""
    away = path.parents[3] / "away"
    shutil.copytree(path, away)
    (shutil.rmtree if not path.is_symlink() else Path.unlink)(path)  # type: ignore[operator]
    path.symlink_to(away)


def gone(path: Path) -> None:
    (shutil.rmtree if not path.is_symlink() else Path.unlink)(path)  # type: ignore[operator]


@pytest.mark.parametrize(("damage", "verdict"), [(replaced, "UNREADABLE"), (gone, "MISSING")])
def test_place_that_leads_elsewhere_or_nowhere(placed: Bench, damage: Callable[[Path], None], verdict: str) -> None:
    for source in ("alpha", "gamma"):
        damage(place(placed, source)) if source == "alpha" else gone(place(placed, source))
    verification = verify(placed.run)
    (found,) = findings(verification).values()
    assert (found.verdict, found.name.startswith(f"{PLACE}/alpha")) == (verdict, True)
    assert unit(verification, "gamma").counts.keys() == {"IDENTICAL", "MISSING"}
    assert "p10000032" not in verification.model_dump_json()


def test_files_in_place_of_links_are_held_against_the_record(placed: Bench) -> None:
    copy = place(placed)
    shutil.copytree(copy, copy.with_name("kept"))
    gone(copy)
    copy.with_name("kept").rename(copy)
    assert verify(placed.run).exit_code == EXIT_OK
    picture = copy / "Ω.png"
    picture.write_bytes(encode(pixels(100 * ord("a") + 4), 1))
    (found,) = findings(verify(placed.run)).values()
    assert (found.name, found.verdict) == (f"{PLACE}/alpha/Ω.png", "EQUIVALENT")
    picture.write_bytes(encode(pixels(1)))
    assert findings(verify(placed.run))[f"{PLACE}/alpha/Ω.png"].verdict == "MISMATCH"
    assert FOLDERS["alpha"] not in found.name
