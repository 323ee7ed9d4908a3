"""Figures of speed and memory: `make bench`. One line each: ``bench <name> <figure>=<number> ...``.

``python benchmarks/run.py ct xray`` runs these two alone.

Every figure stands beside a straightforward way or a bound, measured in the same run, because
machines differ and are shared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import yaml

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "results" / "bench"
DEMO_ARCHIVES = ROOT / "results" / "demo" / "sources" / "archives"
# Variables that make OpenBLAS use other kernels than it would choose.
PINS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
RANKED_QUERIES, RANKED_POOL, EVALUATED, TURNS = 2_000, 20_000, 1000, 2
SECONDS_ALLOWED, MEGABYTES_ALLOWED, AGAIN_ALLOWED = 600, 6000, 20


def show(name: str, **figures: float) -> None:
    """Print one benchmark line."""
    print(f"bench {name} " + " ".join(f"{key}={value:.3g}" for key, value in figures.items()), flush=True)


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds and peak memory in MB (resident, all processes of the tree together) of a command."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            total = 0
            try:
                tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for member in tree:
                try:
                    total += member.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            peak = max(peak, total)
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    watcher.join()
    if code:
        sys.exit(f"benchmark command failed with {code}: {' '.join(command)}")
    return time.monotonic() - started, peak / 1e6


def bench_demo() -> Path:
    """The demo from downloaded archives, then once more with nothing to do."""
    shutil.rmtree(WORK, ignore_errors=True)
    if DEMO_ARCHIVES.exists():
        shutil.copytree(DEMO_ARCHIVES, WORK / "sources" / "archives", copy_function=os.link)
    WORK.mkdir(parents=True, exist_ok=True)
    config = WORK / "config.yaml"
    folders = {"sources": WORK / "sources", "benchmark": WORK / "MedHEB", "results": WORK}
    config.write_text(
        yaml.safe_dump(
            {"paths": {key: os.path.relpath(path, ROOT) for key, path in folders.items()}, "accept": "open"}
        ),
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "medheb", "run", "--config", str(config), "--cores", "2"]
    seconds, megabytes = measured(command)
    show(
        "demo",
        seconds=seconds,
        of_allowed=seconds / SECONDS_ALLOWED,
        peak_mb=megabytes,
        of_allowed_mb=megabytes / MEGABYTES_ALLOWED,
    )
    again, _ = measured(command)
    bare, _ = measured([sys.executable, "-m", "snakemake", "--version"])
    show("demo_again", seconds=again, of_allowed=again / AGAIN_ALLOWED, times_bare_snakemake_start=again / bare)
    return config


def bench_inputs(config: Path) -> None:
    """Distinct inputs embedded, against embedding every query and candidate of every task."""
    from medheb.core.status import read_status
    from medheb.embed.inputs import distinct_inputs, render_task
    from medheb.manifest.load import load_config, load_run
    from medheb.models.load import load_adapter

    os.chdir(ROOT)
    run = load_run(load_config([Path("config/config.yaml"), config]))
    model = next(model for model in run.models.values() if not model.canary)
    adapter = load_adapter(model, run.layout)
    distinct = sum(len(distinct_inputs(run, adapter, group).inputs) for group in run.groups)
    everything = 0
    for task in run.tasks.values():
        if read_status(run.layout.task_status(task.index)).ok:
            rendered = render_task(run, task, adapter)
            everything += len(rendered.queries) + sum(len(row) for row in rendered.candidates)
    show("embed_inputs", distinct=distinct, all_mentions=everything, ratio=distinct / everything)


def own_process(script: str, *arguments: object) -> dict[str, float]:
    """Figures that a script of this folder prints as ``name=number`` in its last line."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    pairs = (pair.split("=") for pair in result.stdout.strip().splitlines()[-1].split())
    return {name: float(number) for name, number in pairs}


def bench_exact_top() -> None:
    """Exact best five of 10,000 queries among 100,000 candidates: ours, the flat index of faiss, and plain torch.

    With the kernels that OpenBLAS chooses for this processor; where the environment pins others, once more with those.
    """
    import exact_top

    folder = WORK / "exact_top"
    shutil.rmtree(folder, ignore_errors=True)
    exact_top.make(folder)
    pinned = {name: os.environ.pop(name) for name in PINS if name in os.environ}
    show_exact_top("exact_top", folder)
    os.environ.update(pinned)
    if pinned:
        show_exact_top("exact_top_with_pinned_kernels", folder)


def show_exact_top(name: str, folder: Path) -> None:
    """The best of a few turns each, one way after the other."""
    import exact_top

    turns = [{way: own_process("exact_top.py", way, folder) for way in exact_top.WAYS} for _ in range(TURNS)]
    best = {
        way: {figure: min(turn[way][figure] for turn in turns) for figure in ("seconds", "cpu_seconds", "peak_mb")}
        for way in exact_top.WAYS
    }
    places = {way: np.load(folder / f"{way}.npy") for way in exact_top.WAYS}
    show(
        name,
        seconds=best["ours"]["seconds"],
        faiss_seconds=best["faiss"]["seconds"],
        torch_seconds=best["torch"]["seconds"],
        ratio=best["ours"]["seconds"] / best["faiss"]["seconds"],
        cpu_ratio=best["ours"]["cpu_seconds"] / best["faiss"]["cpu_seconds"],
        peak_mb=best["ours"]["peak_mb"],
        faiss_peak_mb=best["faiss"]["peak_mb"],
        same=float((places["ours"] == places["faiss"]).mean()),
        same_torch=float((places["ours"] == places["torch"]).mean()),
    )


def bench_evaluation() -> None:
    """One evaluation with cached embeddings, start of Python and imports counted."""
    folder = WORK / "evaluation"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [sys.executable, str(Path(__file__).with_name("evaluate_once.py")), "make", str(folder), str(EVALUATED)],
        cwd=ROOT,
        check=True,
    )
    show("evaluation", **own_process("evaluate_once.py", "evaluate", folder))


def bench_ranking() -> None:
    """Ranks by counting, against sorting every pool, of vectors of 384 values."""
    from medheb.evaluate.ranking import rank_global

    rng = np.random.default_rng(0)
    queries, pool = (rng.standard_normal((n, 384)).astype(np.float32) for n in (RANKED_QUERIES, RANKED_POOL))
    positives = rng.integers(0, len(pool), len(queries)).tolist()
    started = time.process_time()
    ranked = rank_global(queries, pool, positives, 0.0)
    ours = time.process_time() - started
    started = time.process_time()
    ranks = []
    for start in range(0, len(queries), 256):
        order = np.argsort(-(queries[start : start + 256] @ pool.T), axis=1)
        ranks += [
            int(np.flatnonzero(row == positive)[0])
            for row, positive in zip(order, positives[start : start + 256], strict=True)
        ]
    plain = time.process_time() - started
    if any(not result.above <= rank < result.above + result.tied for rank, result in zip(ranks, ranked, strict=True)):
        sys.exit("the two ways of ranking disagree")
    show("ranking", seconds=ours, sorting_seconds=plain, ratio=ours / plain)


def show_batches() -> None:
    """Inputs and padding of a realistic mix, a model that reads one stream and one with two towers."""
    import embedding

    for name, figures in embedding.bench_batches(WORK / "batches"):
        show(name, **figures)


def show_pipeline() -> None:
    """A network that is kept busy, or not."""
    import embedding

    sizes = embedding.WORKERS, embedding.PIPELINE_PICTURES, embedding.ENCODE_SECONDS
    show("pipeline", **own_process("embedding.py", WORK / "pipeline", *sizes))


def show_pictures() -> None:
    """Kept and cut pictures of the 2D sources."""
    import pictures

    for name, figures in pictures.bench_pictures(WORK / "pictures").items():
        show(name, **figures)


def benches() -> dict[str, Callable[[], object]]:
    """All benchmarks by name, in the order of a whole run."""
    import dag
    import index_build
    import projection
    import radiograph
    import released_index
    import slices
    import training
    import transfer
    import verify

    import audit

    return {
        "download": transfer.bench_download,
        "verify": verify.bench_verify,
        "sums": verify.bench_sums,
        "audit": lambda: audit.bench_audit(audit.FEW),
        "radiograph": radiograph.bench_radiograph,
        "ranking": bench_ranking,
        "batches": show_batches,
        "pipeline": show_pipeline,
        "exact_top": bench_exact_top,
        "evaluation": bench_evaluation,
        "xray": projection.bench_projection,
        "ct": lambda: show("ct_slices_and_xray", **slices.bench_slices(WORK / "slices")),
        "ct_largest": lambda: show("ct_largest", **slices.bench_largest(WORK / "largest")),
        "pictures": show_pictures,
        "rebuilt_index": lambda: show("rebuilt_index", **index_build.bench_index(WORK / "rebuilt", measured)),
        "released_index": lambda: show("released_index", **released_index.bench_released(WORK / "index", measured)),
        "training": lambda: show("training", **training.bench_training(WORK / "training")),
        "dry_run": dag.bench_dry_run,
        "noop": dag.bench_noop,
        "demo": lambda: bench_inputs(bench_demo()),
    }


def main() -> None:
    """Run the benchmarks that are named, all without a name."""
    known = benches()
    parser = argparse.ArgumentParser(description="Figures of speed and memory.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(known)}; default: all")
    names = parser.parse_args().names or list(known)
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    for name in names:
        known[name]()
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
