"""The same source gives the same content: whatever the order of files, the number of workers, or the hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import make_xrays as make
import pytest

from medheb.build.source import ProtocolName

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
    make.put_mimic(folder / "mimic")
    make.put_imagenome(folder / "imagenome", GOLD)
    make.put_silver(folder / "imagenome")


def lay_lt(folder: Path) -> None:
    make.put_mimic(folder / "mimic")
    header = [*make.LT, *make.LT_LABELS]
    make.put_table(folder / "labels" / "mimic-cxr-lt_single-label_test.csv", header, make.lt_rows(8))


def lay_vqa(folder: Path) -> None:
    make.put_mimic(folder / "mimic")
    header = ["study_id", "question_type", "question", "answer"]
    make.put_table(folder / "vqa" / "medical_cxr_vqa_questions.csv", header, QUESTIONS)


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "vindr_cxr": lambda folder: make.put_vindr(folder, [["tr1", "R1", "ILD", 5, 5, 50, 50]], BOXES),
    "vindr_mammo": lambda folder: make.put_mammo(folder, MAMMO),
    "chest_imagenome": lay_imagenome,
    "mimic_cxr": lambda folder: make.put_mimic(folder / "mimic"),
    "mimic_cxr_lt": lay_lt,
    "mimic_cxr_vqa": lay_vqa,
    "chexpert_plus": make.put_chexpert,
}
CASES = [
    (dataset, protocol)
    for dataset in LAYOUTS
    for protocol in ("release", "corrected")
    if protocol == "corrected" or dataset in {"vindr_cxr", "vindr_mammo", "chest_imagenome", "mimic_cxr_lt"}
]
OPTIONS = {"mimic_cxr_lt": {"labels": make.LT_LABELS, "test_rows": 4}}
PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[6])
import make_xrays as make
dataset, files, out, protocol = sys.argv[1:5]
options = json.loads(sys.argv[5])
print(make.root_of(make.build(dataset, Path(files), Path(out), protocol, **options)))
"""


def reversed_order() -> Callable[..., object]:
    """``os.scandir`` in reversed order."""
    real = os.scandir

    class Reversed:
        def __init__(self, entries: list[os.DirEntry[str]]) -> None:
            self._entries = iter(entries)

        def __enter__(self) -> Reversed:
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def __iter__(self) -> Reversed:
            return self

        def __next__(self) -> os.DirEntry[str]:
            return next(self._entries)

        def close(self) -> None:
            return None

    def scandir(folder: str = ".") -> Reversed:
        with real(folder) as entries:
            return Reversed(sorted(entries, key=lambda entry: entry.name, reverse=True))

    return scandir


@pytest.mark.parametrize(("dataset", "protocol"), CASES)
def test_order_workers_and_hash_seed(
    dataset: str, protocol: ProtocolName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "in"
    LAYOUTS[dataset](files)
    options = OPTIONS.get(dataset, {})
    first = make.root_of(make.build(dataset, files, tmp_path / "first", protocol, **options))
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", reversed_order())
        assert make.root_of(make.build(dataset, files, tmp_path / "reversed", protocol, **options)) == first
    folders = [str(Path(__file__).parent), str(Path(make.__file__).parents[1] / "build_3d")]
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        dataset,
        str(files),
        str(tmp_path / "seed"),
        protocol,
        json.dumps(options),
    ]
    environment = os.environ | {"PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    result = subprocess.run(
        [*command, json.dumps(folders)], env=environment, check=True, capture_output=True, text=True, umask=0o077
    )
    assert result.stdout.split()[-1] == first


@pytest.mark.parametrize("dataset", ["vindr_cxr", "chest_imagenome"])
def test_two_workers(dataset: str, tmp_path: Path) -> None:
    files = tmp_path / "in"
    LAYOUTS[dataset](files)
    one = make.build(dataset, files, tmp_path / "one")
    two = make.build(dataset, files, tmp_path / "two", workers=2)
    assert make.root_of(one) == make.root_of(two)
    assert one == two
