"""Every source of pictures and texts in small, in its publisher's layout, and builds of all of them.

As a program it builds all in adverse circumstances and prints their roots: ``python make_all.py FOLDER``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOMS = [str(Path(__file__).resolve().parents[1] / room) for room in ("build_2d", "build_3d", "build_text")]
sys.path += [room for room in ROOMS if room not in sys.path]

import make_kept  # noqa: E402
import make_sets  # noqa: E402
import make_texts  # noqa: E402
import make_xrays  # noqa: E402
from making import MANIFESTS, built  # noqa: E402

from medheb.build.inventory import Inventory  # noqa: E402
from medheb.build.registry import RECIPES  # noqa: E402
from medheb.build.source import ProtocolName  # noqa: E402
from medheb.core.digests import merkle_root  # noqa: E402
from medheb.manifest.load import load_dataset  # noqa: E402

BOXES = [
    ["te1", "", "Nodule/Mass", 1, 1, 40, 40],
    ["te1", "", "Nodule/Mass", 2, 2, 41, 41],
    ["te2", "", "ILD", 9, 9, 60, 60],
]
MAMMO = [
    ["s1", "q", f"m{n}", "['Mass', 'Skin Thickening']", 10, 10, 60, 60, "training" if n else "test"] for n in range(3)
]
QUESTIONS = [[50000000 + n, "presence", f"question {n % 3}?", "yes"] for n in range(8)]
GOLD = [[f"bb{n}.dcm", name, 10, 10, 60, 70] for n in range(1, 4) for name in ("spine", "left lung")]


def lay_imagenome(folder: Path) -> None:
    make_xrays.put_mimic(folder / "mimic")
    make_xrays.put_imagenome(folder / "imagenome", GOLD)
    make_xrays.put_silver(folder / "imagenome")


def lay_lt(folder: Path) -> None:
    make_xrays.put_mimic(folder / "mimic")
    header = [*make_xrays.LT, *make_xrays.LT_LABELS]
    make_xrays.put_table(folder / "labels" / "mimic-cxr-lt_single-label_test.csv", header, make_xrays.lt_rows(8))


def lay_vqa(folder: Path) -> None:
    make_xrays.put_mimic(folder / "mimic")
    header = ["study_id", "question_type", "question", "answer"]
    make_xrays.put_table(folder / "vqa" / "medical_cxr_vqa_questions.csv", header, QUESTIONS)


XRAYS: dict[str, Callable[[Path], None]] = {
    "vindr_cxr": lambda folder: make_xrays.put_vindr(folder, [["tr1", "R1", "ILD", 5, 5, 50, 50]], BOXES),
    "vindr_mammo": lambda folder: make_xrays.put_mammo(folder, MAMMO),
    "chest_imagenome": lay_imagenome,
    "mimic_cxr": lambda folder: make_xrays.put_mimic(folder / "mimic"),
    "mimic_cxr_lt": lay_lt,
    "mimic_cxr_vqa": lay_vqa,
    "chexpert_plus": make_xrays.put_chexpert,
}


def lay_medmnist(name: str, colours: int) -> Callable[[Path, int], None]:
    """A set of its own size of vocabulary."""
    options = load_dataset(MANIFESTS / f"{name}.yaml").recipe.options

    def lay(top: Path, order: int = 1) -> None:
        arrays = make_sets.medmnist(colours, len(options["labels"]))
        make_sets.put_npz(top / f"{options['archive']}_224.npz", arrays, order)

    return lay


def lay_segmented(name: str, colours: int) -> Callable[[Path, int], None]:
    """A set of MedSegBench."""
    options = load_dataset(MANIFESTS / f"{name}.yaml").recipe.options

    def lay(top: Path, order: int = 1) -> None:
        make_sets.put_npz(top / f"{options['archive']}_512.npz", make_sets.segmented(colours), order)

    return lay


COLOURS = {"dermamnist": 3, "bloodmnist": 3}
COLOURS |= dict.fromkeys(("octmnist", "tissuemnist", "organamnist", "organcmnist", "organsmnist"), 0)
SEGMENTED = {"uw_skin_cancer": 3, "ultrasound_nerve": 0}


def _any_order(lay: Callable[[Path], object]) -> Callable[[Path, int], object]:
    """For layouts whose tables have one order; the order of files is turned when they are listed."""
    return lambda top, _: lay(top)


LAYERS: dict[str, Callable[[Path, int], object]] = {
    **make_sets.LAYERS,
    **{name: lay_medmnist(name, colours) for name, colours in COLOURS.items()},
    **{name: lay_segmented(name, colours) for name, colours in SEGMENTED.items()},
    **make_kept.LAYOUTS,
    **{name: _any_order(lay) for name, lay in XRAYS.items()},
    **{name: _any_order(lay) for name, lay in make_texts.LAYOUTS.items()},
}
OPTIONS: dict[str, dict[str, Any]] = {"mimic_cxr_lt": {"labels": make_xrays.LT_LABELS, "test_rows": 4}}


def maker_of(name: str) -> Path:
    """The file that makes the inputs of a source."""
    for module, names in ((make_kept, make_kept.LAYOUTS), (make_xrays, XRAYS), (make_texts, make_texts.LAYOUTS)):
        if name in names:
            return Path(str(module.__file__))
    return Path(str(make_sets.__file__))


def protocols_of(name: str) -> tuple[ProtocolName, ...]:
    """Both, unless the source's recipe makes the same under each."""
    recipe = load_dataset(MANIFESTS / f"{name}.yaml").recipe.name
    return ("release", "corrected") if RECIPES[recipe].follows_protocol else ("corrected",)


CASES: list[tuple[str, ProtocolName]] = [(name, protocol) for name in LAYERS for protocol in protocols_of(name)]


def make(name: str, files: Path, out: Path, protocol: ProtocolName, workers: int = 1) -> Inventory:
    """Build a source that one of ``LAYERS`` has laid."""
    return built(name, files, out, protocol, workers, OPTIONS.get(name))


def root(inventory: Inventory) -> str:
    """Merkle root over the contents of all files."""
    return merkle_root({file.path: file.content for file in inventory.files})


class Turned:
    """Entries of a folder, the last first, as ``os.scandir`` gives them."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._entries = iter(sorted(entries, key=lambda entry: entry.name, reverse=True))

    def __enter__(self) -> Turned:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return self._entries

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)

    def close(self) -> None:
        return None


def turn_folders() -> None:
    """From now on this process gets the entries of each folder in reversed order."""
    scan, listed = os.scandir, os.listdir

    def scandir(folder: Any = ".") -> Turned:
        with scan(folder) as entries:
            return Turned(list(entries))

    os.scandir = scandir  # type: ignore[assignment]
    os.listdir = lambda folder=".": sorted(listed(folder), reverse=True)  # type: ignore[assignment]


def main() -> None:
    """Build all from rows and files in the other order with two workers, and print the roots."""
    top = Path(sys.argv[1])
    # Workers of a server that has imported everything start at once; fresh ones would take most of the time.
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["turned_folders"])
    multiprocessing.get_context = lambda _=None: server  # type: ignore[assignment]
    turn_folders()
    roots = {}
    for name, lay in LAYERS.items():
        lay(top / "in" / name, -1)
        for protocol in protocols_of(name):
            made = make(name, top / "in" / name, top / protocol / name, protocol, workers=2)
            roots[f"{name} {protocol}"] = root(made)
    print(json.dumps(roots))


if __name__ == "__main__":
    main()
