"""All 107 task indexes from inventories of realistic size, on two cores.

The inventories are made up (names, digests and facts; see ``tests/index/make_benchmark.py``) with as many files as the
real sources give: about two million. Run as a script with a folder it builds the indexes of that folder, so that time
and peak memory are those of the step alone.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "index"))

import make_benchmark as make  # noqa: E402
from peak import peak_mb  # noqa: E402

from medheb.index.built import inventories_of  # noqa: E402
from medheb.index.records import as_json, stream_records  # noqa: E402
from medheb.index.run import build_index, build_records, sources_of  # noqa: E402
from medheb.manifest.load import Run  # noqa: E402

CORES = 2
SECONDS_ALLOWED, MEGABYTES_ALLOWED = 300, 2000
SLICES = 64
# All sources, as large as they are; the smoke test takes a few small ones. Kept in the folder for the other processes.
SOURCES, MOST = "all", 1_000_000
CPU, CHOSEN, LARGE = "cpu_seconds.txt", "chosen.json", "M3D_3dqa"
OTHERS = (1000, 2000)
# Test and training items; for sources without a published split the sum of both counts.
SIZES = {
    "aptos_2019": (3662, 0),
    "bloodmnist": (3421, 11959),
    "brain_tumor_mri": (1600, 0),
    "brats_men": (200, 0),
    "brats_ped": (45, 99),
    "chest_imagenome": (1000, 20000),
    "chestmnist": (8000, 30000),
    "cirrmri600": (64, 450),
    "ct_rate": (1564, 0),
    "dermamnist": (2005, 7007),
    "han_seg": (13, 29),
    "isic_2018": (1000, 2594),
    "isic_2019": (6191, 0),
    "kvasir": (8000, 0),
    "kvasir_seg": (300, 700),
    "lc25000": (25000, 0),
    "m3d": (2000, 0),
    "medical_qa_retrieval": (2048, 0),
    "medmcqa": (6150, 182822),
    "medpix_vqa": (20000, 0),
    "mmdental": (403, 0),
    "mrnet": (120, 1130),
    "nodulemnist3d": (310, 1158),
    "octmnist": (1000, 97477),
    "omnimedvqa": (88996, 0),
    "organamnist": (17778, 34561),
    "organcmnist": (8216, 12975),
    "organmnist3d": (610, 971),
    "organsmnist": (8827, 13932),
    "pannuke": (1000, 6900),
    "path_vqa": (6719, 19654),
    "pathmnist": (7180, 89996),
    "pmc_vqa": (2000, 0),
    "public_health_qa": (887, 0),
    "pubmedqa": (500, 500),
    "radgenome_chest_ct": (1564, 0),
    "radimagenet_vqa": (10000, 0),
    "rfmid": (640, 0),
    "synapsemnist3d": (352, 1230),
    "synthrad2023": (54, 126),
    "tissuemnist": (47280, 165466),
    "vqa_rad": (451, 1793),
}


def run_of(folder: Path) -> Run:
    """The benchmark, or the chosen sources of it."""
    return make.benchmark_run(folder, datasets=json.loads((folder / CHOSEN).read_text())["sources"])


def prepare(folder: Path) -> None:
    """Write the inventories."""
    run, most = run_of(folder), json.loads((folder / CHOSEN).read_text())["most"]
    for name, dataset in run.datasets.items():
        tests, trains = SIZES.get(name, OTHERS)
        made = make.made_source(dataset, (min(tests, most), min(trains, most)), SLICES)
        make.write_source(run, made)


def build(place: tuple[str, str]) -> None:
    """Build one task."""
    status = build_index(run_of(Path(place[0])), place[1])
    if not status.ok:
        sys.exit(f"{place[1]}: {status.reason}")


def build_all(folder: Path) -> None:
    """All tasks on two cores."""
    tasks = run_of(folder).tasks
    with ProcessPoolExecutor(CORES, get_context("spawn")) as pool:
        list(pool.map(build, [(str(folder), key) for key in tasks]))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    (folder / CPU).write_text(str(sum(one.ru_utime + one.ru_stime for one in used)))


def one_task(folder: Path, way: str) -> None:
    """Write one large task row by row, or hold all of its rows first; print the peak memory in MB."""
    run = run_of(folder)
    task = run.tasks[LARGE]
    if way == "stream":
        build((str(folder), LARGE))
    else:
        inventories = inventories_of(run, task)
        records = build_records(task, sources_of(run, task, inventories), run.config.seed)
        text = json.dumps(as_json(records), sort_keys=True, ensure_ascii=False, indent=0)
        (folder / "plain.json").write_text(text, encoding="utf-8")
    print(peak_mb())


def _peak(folder: Path, way: str) -> float:
    shown = subprocess.run([sys.executable, __file__, str(folder), way], check=True, capture_output=True, text=True)
    return float(shown.stdout.split()[-1])


def bench_index(folder: Path, measured: Callable[[list[str]], tuple[float, float]]) -> dict[str, float]:
    """Figures of the index step over all tasks.

    Args:
        folder: to work in.
        measured: runs a command; seconds and peak memory in MB of all its processes together.
    """
    os.chdir(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / CHOSEN).write_text(json.dumps({"sources": SOURCES, "most": MOST}))
    # In a process of its own, so that this one stays small.
    subprocess.run([sys.executable, __file__, str(folder), "prepare"], check=True)
    seconds, megabytes = measured([sys.executable, __file__, str(folder)])
    cpu_seconds = float((folder / CPU).read_text())
    # On a shared machine the time of the clock is also that of others: two free cores would take half the CPU seconds.
    if cpu_seconds / CORES > SECONDS_ALLOWED or megabytes > MEGABYTES_ALLOWED:
        sys.exit(f"the index took {seconds:.0f} s, {cpu_seconds:.0f} s of CPU and {megabytes:.0f} MB")
    streamed, plain = _peak(folder, "stream"), _peak(folder, "plain")
    run = run_of(folder)
    counts = [
        len(record.tgt_text)
        for task in run.tasks.values()
        for record in stream_records(run.layout.task_index(task.index))
    ]
    return {
        "queries": len(counts),
        "candidates": sum(counts),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "megabytes": megabytes,
        "task_megabytes": streamed,
        "task_megabytes_all_rows_held": plain,
        "memory_ratio": plain / streamed,
    }


if __name__ == "__main__":
    if sys.argv[2:] == ["prepare"]:
        prepare(Path(sys.argv[1]))
    elif sys.argv[2:]:
        one_task(Path(sys.argv[1]), sys.argv[2])
    else:
        build_all(Path(sys.argv[1]))
