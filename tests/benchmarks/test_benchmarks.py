"""Every benchmark of ``make bench`` still runs and prints its figures: on tiny inputs, for the code, never for speed.

Left out: plastimatch and nanodrr beside our X-ray, which want a Python of their own; the demo, whose command is read,
not run; faiss (``envs/bench.txt``), for which a class of this file stands in; the full report, of which the calls alone
are held against the functions. The workflow is that of one source of the demo, not of the full benchmark. Most scripts
that a benchmark starts run in the process of the test, which has their imports already.
"""

from __future__ import annotations

import importlib
import math
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
import torch
import yaml

from medheb import cli
from medheb.core.files import write_json
from medheb.manifest.load import Run, load_run
from medheb.manifest.model import Model
from medheb.report.example import fill_example
from medheb.report.run import collect_report

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
start = subprocess.run
RADIOGRAPH = "seconds decoder_seconds times_decoder times_decoder_without_png png_mb"
BATCHES = (
    "inputs of_published_way of_every_mention padded_by_tokens padded_by_tokens_published_way "
    "padded_of_published_way calls_of_published_way calls largest_batch"
)
EXACT_TOP = "seconds faiss_seconds torch_seconds ratio cpu_ratio peak_mb faiss_peak_mb same same_torch"
PICTURES = "pictures plain_seconds seconds throughput_ratio cpu_ratio plain_mb peak_mb added_mb"
# What each prints: its lines, and the figures of each line.
FIGURES: dict[str, dict[str, str]] = {
    "download": {"download": "ratio peak_mb best_ratio ratio_verified mb_s curl_mb_s"},
    "verify": {"verify": "mb_per_second ratio ratio_two_workers ratio_two_against_two of_bound of_bound_two_workers"},
    "sums": {"sums": "lines seconds peak_mb times_split_parser"},
    "audit": {
        "audit": (
            "pictures record_seconds record_of_bound record_mb verify_seconds verify_of_bound verify_mb "
            "fast_seconds fast_mb"
        )
    },
    "radiograph": {
        "radiograph_lossless": RADIOGRAPH,
        "radiograph_lossy": RADIOGRAPH,
    },
    "ranking": {"ranking": "seconds sorting_seconds ratio"},
    "batches": {
        "batches_qwen3vl": BATCHES,
        "batches_siglip": BATCHES,
    },
    "pipeline": {
        "pipeline": "of_encode_only of_encode_only_without_workers start_seconds decode_cpu_share_of_encode load"
    },
    "exact_top": {
        "exact_top": EXACT_TOP,
        "exact_top_with_pinned_kernels": EXACT_TOP,
    },
    "evaluation": {"evaluation": "seconds after_imports cpu_seconds cpu_after_imports torch"},
    "xray": {
        "xray_cone": "seconds process_seconds peak_mb of_allowed of_allowed_mb",
        "xray_nanodrr": "",
        "xray_plastimatch": "",
    },
    "ct": {
        "ct_slices_and_xray": (
            "plain_seconds seconds throughput_ratio cpu_ratio plain_mb peak_mb memory_share slices_different "
            "xray_levels"
        )
    },
    "ct_largest": {
        "ct_largest": "megabytes_of_voxels release_cpu release_mb release_of_allowed cone_cpu cone_mb cone_of_allowed"
    },
    "pictures": {
        "medmnist_224": PICTURES,
        "pannuke": PICTURES,
    },
    "rebuilt_index": {
        "rebuilt_index": (
            "queries candidates seconds cpu_seconds megabytes task_megabytes task_megabytes_all_rows_held memory_ratio"
        )
    },
    "released_index": {
        "released_index": "queries candidates pictures seconds seconds_allowed megabytes megabytes_allowed"
    },
    "training": {
        "training": (
            "pairs padding padding_one_length padding_static padding_static_grouped batches batches_static "
            "mask_of_step batching_of_step"
        )
    },
    "dry_run": {
        "dag_dry_run": (
            "jobs of_allowed_jobs seconds of_allowed_seconds times_bare_start cpu_times_bare_start of_allowed_times"
        )
    },
    "noop": {
        "dag_noop": (
            "rules jobs jobs_per_second of_wanted jobs_per_cpu_second plain_jobs_per_second ratio_to_plain "
            "cpu_ratio_to_plain"
        )
    },
    "demo": {
        "demo": "seconds of_allowed peak_mb of_allowed_mb",
        "demo_again": "seconds of_allowed times_bare_snakemake_start",
        "embed_inputs": "distinct all_mentions ratio",
    },
}
# Sizes that still take every branch. A CT has at least as many planes as slices are made of it.
SMALL: dict[str, dict[str, Any]] = {
    "download": {"transfer.SIZE_BYTES": (1 << 20) + 5, "transfer.ROUNDS": 1},
    "verify": {"verify.FILES": 3, "verify.FILE_BYTES": 1 << 12, "verify.REPEATS": 1},
    "sums": {"verify.LINES": 20, "verify.REPEATS": 1},
    "audit": {"audit.FEW": 3},
    "radiograph": {"radiograph.ROWS": 60, "radiograph.COLUMNS": 50, "radiograph.REPEATS": 1},
    "ranking": {"run.RANKED_QUERIES": 300, "run.RANKED_POOL": 400},
    "batches": {"embedding.ROWS": 4, "embedding.SLICES": 2},
    "pipeline": {"embedding.WORKERS": 1, "embedding.PIPELINE_PICTURES": 20, "embedding.ENCODE_SECONDS": 0.01},
    "exact_top": {"exact_top.QUERIES": 20, "exact_top.CANDIDATES": 30, "exact_top.VALUES": 8, "run.TURNS": 1},
    "evaluation": {"run.EVALUATED": 8},
    "xray": {"projection.SHAPE": (512, 512, 4), "projection.ROUNDS": 1},
    "ct": {"slices.SHAPE": (48, 48, 70), "slices.REPEATS": 1},
    "ct_largest": {"slices.LARGEST": (64, 64, 72)},
    "pictures": {
        "pictures.ROWS": {"train": 3, "val": 2, "test": 2},
        "pictures.TILES": 6,
        "pictures.NUCLEI": 3,
        "pictures.REPEATS": 1,
    },
    "rebuilt_index": {"index_build.SOURCES": ("kvasir", "m3d"), "index_build.MOST": 36},
    "released_index": {"released_index.QUERIES": 3, "released_index.CANDIDATES": 4, "released_index.PICTURES": 32},
    "training": {
        "embedding.SLICES": 2,
        "training.ROWS": 4,
        "training.ROUNDS": 1,
        "training.WIDTH": 8,
        "training.TOKENS": 4,
    },
    "dry_run": {"dag.ROUNDS": 1},
    "noop": {},
    "demo": {},
}


class FlatIndex:
    """Stands in for faiss.IndexFlatIP."""

    def __init__(self, values: int) -> None:
        self.rows = np.empty((0, values), np.float32)

    def add(self, rows: np.ndarray) -> None:
        self.rows = np.concatenate([self.rows, rows])

    def search(self, queries: np.ndarray, best: int) -> tuple[np.ndarray, np.ndarray]:
        scores = queries @ self.rows.T
        places = np.argsort(-scores, axis=1)[:, :best]
        return np.take_along_axis(scores, places, axis=1), places


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script of the folder; afterwards no module, path or variable of it is left."""
    environment, threads = dict(os.environ), torch.get_num_threads()
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.delenv("MEDHEB_BENCH_PEERS", raising=False)
    monkeypatch.setattr("run.WORK", tmp_path / "bench")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("subprocess.run", in_this_process)
    yield importlib.import_module
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(threads)
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def in_this_process(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A script of the folder without a start of Python; any other command as it is."""
    if Path(*command[1:2]).parent != BENCHMARKS:
        try:
            return start(command, **options)
        except subprocess.CalledProcessError as error:
            print(error.stderr, file=sys.stderr)  # which the exception does not tell
            raise
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        patch.setattr(sys, "argv", command[1:])
        runpy.run_path(command[1], run_name="__main__")
    return subprocess.CompletedProcess(command, 0, said.getvalue())


def one_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The workflow is that of one source, instead of the full benchmark."""
    config = tmp_path / "one_source.yaml"
    content = {"manifests": "manifests/demo", "datasets": ["icd10cm"], "models": ["random"], "accept": "open"}
    config.write_text(yaml.safe_dump(content))
    monkeypatch.setattr("dag.FULL", ("all", "--configfile", str(config)))


def peers_and_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for faiss, and pinned kernels beside the chosen ones."""
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    faiss = SimpleNamespace(omp_set_num_threads=lambda count: None, IndexFlatIP=FlatIndex)
    monkeypatch.setitem(sys.modules, "faiss", faiss)


def read_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The demo's command is read by our command line, which then runs nothing; a toy stands for what the demo makes."""

    def measured(command: list[str]) -> tuple[float, float]:
        _, module, *arguments = command[1:]
        if module == "medheb":
            monkeypatch.setattr(sys, "argv", [module, *arguments])
            with pytest.raises(SystemExit, match=r"^0$"):
                cli.main()
        return 2.0, 100.0

    def run_workflow(config: Path, cores: int) -> int:
        content = yaml.safe_load(config.read_text())
        assert (ROOT / content["paths"]["sources"] / "archives" / "a.zip").read_text() == "downloaded"
        return 0

    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "a.zip").write_text("downloaded")
    monkeypatch.setattr("run.DEMO_ARCHIVES", tmp_path / "archives")
    monkeypatch.setattr("run.measured", measured)
    monkeypatch.setattr("medheb.driver.run_workflow", run_workflow)
    monkeypatch.setattr("medheb.fetch.plan.require_room", lambda plan: None)
    monkeypatch.syspath_prepend(ROOT / "tests" / "embed")
    from toy_run import make_files, toy_run

    toy = toy_run(tmp_path)
    make_files(toy)
    model = Model.model_validate({"id": "other", "title": "No canary", "adapter": {"name": "random"}})
    toy = replace(toy, models={**toy.models, "other": model})
    monkeypatch.setattr("medheb.manifest.load.load_run", lambda config: (load_run(config), toy)[1])


PREPARE = {"dry_run": one_source, "noop": one_source, "exact_top": peers_and_kernels, "demo": read_demo}


def test_every_benchmark_is_here(bench: Callable[[str], ModuleType]) -> None:
    assert list(bench("run").benches()) == list(FIGURES) == list(SMALL)


@pytest.mark.parametrize("name", FIGURES)
def test_prints_its_figures(
    name: str,
    bench: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "download" and shutil.which("curl") is None:
        pytest.skip("the benchmark of downloads is left out: it needs curl, which is not installed")
    bench("run").benches()  # imports every script, so that its sizes can be set
    for size, value in SMALL[name].items():
        monkeypatch.setattr(size, value)
    if name in PREPARE:
        PREPARE[name](monkeypatch, tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", name])
    bench("run").main()
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("bench ")]
    figures = {line: dict(word.split("=") for word in words if "=" in word) for _, line, *words in lines}
    assert {line: " ".join(found) for line, found in figures.items()} == FIGURES[name]
    assert all(math.isfinite(float(number)) for found in figures.values() for number in found.values())
    assert not (tmp_path / "bench").exists()


def test_report(
    bench: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``report.py`` is started by hand, not by ``make bench``."""

    def fill(run: Run) -> None:
        write_json(run.layout.results / "scores" / "a.json", {})

    def collect(run: Run, banner: str) -> None:
        write_json(run.layout.report / "index.html", banner)

    def child(code: str, folder: str) -> tuple[float, float]:
        exec(f"{report.MAKE}; {code}", {"sys": SimpleNamespace(argv=["", folder]), "Path": Path})
        return 2.0, 100.0

    report = bench("report")
    monkeypatch.setattr(report, "child", child)
    monkeypatch.setattr("medheb.report.example.fill_example", create_autospec(fill_example, side_effect=fill))
    monkeypatch.setattr("medheb.report.run.collect_report", create_autospec(collect_report, side_effect=collect))
    report.main()
    assert capsys.readouterr().out.startswith("bench report seconds=2 ")
