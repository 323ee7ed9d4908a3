"""The build step: statuses, whole renames, same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import make_phantoms as make
import pytest
from make_phantoms import RunMaker

from medheb.build import registry
from medheb.build.demo import organ_volume
from medheb.build.inventory import read_inventory
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.run import build_images
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.core.files import temporary_name
from medheb.core.layout import Layout
from medheb.core.status import Status, write_status
from medheb.manifest.load import Run


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def person(run_of: RunMaker) -> Run:
    run = run_of(("person", "organ_volume", make.ORGANS))
    make.lay_person(run.layout.source_files("person"))
    return run


def test_rebuilding_gives_the_same_bytes_and_drops_what_is_not_listed(person: Run) -> None:
    build_images(person, "person")
    folder = person.layout.benchmark / "3D_Images" / "person"
    first = folder_bytes(folder)
    (folder / "stranger.png").write_bytes(b"")
    assert build_images(person, "person").ok
    assert folder_bytes(folder) == first
    inventory = read_inventory(folder / "person.inventory.json")
    assert {file.path for file in inventory.files} == set(first) - {"person.inventory.json", "person.inventory.parquet"}
    assert [file.path for file in inventory.files] == sorted(file.path for file in inventory.files)


def test_bytes_do_not_depend_on_hash_seed_locale_time_zone_or_umask(person: Run, tmp_path: Path) -> None:
    code = (
        "import sys, os; os.umask(0o077); sys.path.insert(0, sys.argv[1])\n"
        "import make_phantoms as make, pathlib, shutil\n"
        "from medheb.build.run import build_images\n"
        "run = make.run_of(pathlib.Path(sys.argv[2]), [('person', 'organ_volume', make.ORGANS)], '3D_Images/{}')\n"
        "make.lay_person(run.layout.source_files('person'))\n"
        "assert build_images(run, 'person').ok\n"
    )
    other = tmp_path / "other"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    subprocess.run(
        [sys.executable, "-c", code, str(Path(make.__file__).parent), str(other)], check=True, env=environment
    )
    build_images(person, "person")
    assert folder_bytes(other / "MedHEB") == folder_bytes(person.layout.benchmark)


def test_trouble_of_the_source_is_passed_on_unchanged(person: Run) -> None:
    build_images(person, "person")
    blocked = Status(state="blocked", origin="fetch person", reason="no network", remedy="connect")
    write_status(person.layout.source_status("person"), blocked)
    assert build_images(person, "person") == blocked
    folder = person.layout.benchmark / "3D_Images" / "person"
    assert sorted(folder_bytes(folder)) == ["person.inventory.json", "person.inventory.parquet"]
    assert read_inventory(folder / "person.inventory.json").status == blocked


def test_leftovers_of_a_killed_attempt_are_removed_but_not_those_of_others(person: Run) -> None:
    target = person.layout.benchmark / "3D_Images" / "person"
    target.parent.mkdir(parents=True)
    own, foreign = temporary_name(target), temporary_name(target.with_name("other"))
    for leftover in (own, foreign):
        (leftover / "crops").mkdir(parents=True)
    assert build_images(person, "person").ok
    assert not own.exists()
    assert foreign.exists()


def test_a_crash_leaves_the_old_folder(person: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    build_images(person, "person")
    before = folder_bytes(person.layout.benchmark)

    def crash(source: Source, unit: Unit, out: Output) -> None:
        out.content("half.txt", b"")
        raise RuntimeError("power cut")

    monkeypatch.setattr(organ_volume, "RECIPE", Recipe(crash))
    with pytest.raises(RuntimeError, match="power cut"):
        build_images(person, "person")
    visible = {path: content for path, content in folder_bytes(person.layout.benchmark).items() if ".part." not in path}
    assert visible == before


def test_nothing_written_and_a_wrong_version_become_a_failed_inventory(
    person: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(organ_volume, "RECIPE", Recipe(lambda source, unit, out: None))
    assert "gave no files" in build_images(person, "person").reason
    monkeypatch.setitem(registry.RECIPES, "organ_volume", registry.Entry("medheb.build.demo.organ_volume", 2))
    assert "key 'recipe.version' is 1, but this code makes version 2" in build_images(person, "person").reason


def test_misuse_raises_instead_of_leaving_a_status(run_of: RunMaker, person: Run) -> None:
    with pytest.raises(MedhebError, match="nobody: is not a source of this run"):
        build_images(person, "nobody")
    person.layout.source_status("person").unlink()
    with pytest.raises(MedhebError, match=r"status\.json: is missing"):
        build_images(person, "person")
    twins = run_of(("one", "organ_volume", make.ORGANS), ("two", "organ_volume", make.ORGANS), images="3D_Images/Same")
    with pytest.raises(MedhebError, match="key 'images' is 3D_Images/Same, which overlaps with that of two"):
        build_images(twins, "one")


KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, sys.argv[1])
import make_phantoms as make
from medheb.build import run as step
from medheb.build.demo import organ_volume
from medheb.build.recipe import Recipe

run = make.run_of(pathlib.Path(sys.argv[2]), [("person", "organ_volume", make.ORGANS)], "3D_Images/{}")
make.lay_person(run.layout.source_files("person"))
whole = organ_volume.RECIPE.build


def dies(source, unit, out):
    whole(source, unit, out)
    if sys.argv[3] == "recipe":
        os.kill(os.getpid(), signal.SIGKILL)


def dies_too(path, inventory):
    os.kill(os.getpid(), signal.SIGKILL)


organ_volume.RECIPE = Recipe(dies)
if sys.argv[3] == "inventory":
    step.write_inventory = dies_too
step.build_images(run, "person")
"""


@pytest.mark.parametrize("moment", ["recipe", "inventory"])
def test_a_killed_build_leaves_nothing_half_and_a_rerun_mends_it(person: Run, tmp_path: Path, moment: str) -> None:
    build_images(person, "person")
    undisturbed = folder_bytes(person.layout.benchmark)
    other = tmp_path / "killed"
    arguments = [sys.executable, "-c", KILLED, str(Path(make.__file__).parent), str(other), moment]
    assert subprocess.run(arguments, check=False).returncode == -9
    assert not (other / "MedHEB" / "3D_Images" / "person").exists()
    assert list((other / "MedHEB" / "3D_Images").iterdir()), "the killed attempt left its staging folder"
    again = Run(
        person.config,
        Layout(other / "sources", other / "MedHEB", other / "results"),
        person.datasets,
        {},
        {},
        person.protocol,
    )
    assert build_images(again, "person").ok
    assert folder_bytes(other / "MedHEB") == undisturbed
