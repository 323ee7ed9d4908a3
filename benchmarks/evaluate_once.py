"""One evaluation with cached embeddings in a process of its own, as a job of the workflow runs it.

``python evaluate_once.py make FOLDER PICTURES``, then ``python evaluate_once.py evaluate FOLDER``. The task is made up:
each picture finds the next one among all; the vectors are the random canary's.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

STARTED = time.monotonic()
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "embed"))


def make(folder: Path, pictures: int) -> None:
    """Pictures, task and vectors."""
    from toy_run import MODEL, make_files, toy_run

    from medheb.embed.run import embed_inputs

    run = toy_run(folder, workers=0)
    make_files(run, pictures)
    embed_inputs(run, MODEL, "toy")


def evaluate(folder: Path) -> None:
    """Evaluate, and print the seconds since this process began and those of its processor."""
    from toy_run import MODEL, toy_run

    from medheb.evaluate.run import evaluate_task

    run = toy_run(folder)
    config = run.config.model_copy(update={"evaluate": type(run.config.evaluate)()})
    begun, worked = time.monotonic(), time.process_time()
    status = evaluate_task(type(run)(**{**run.__dict__, "config": config}), MODEL, "toy_i2i")
    if not status.ok:
        sys.exit(status.reason)
    now = time.monotonic()
    print(
        f"seconds={now - STARTED:.6g} after_imports={now - begun:.6g} cpu_seconds={time.process_time():.6g} "
        f"cpu_after_imports={time.process_time() - worked:.6g} torch={float('torch' in sys.modules)}"
    )


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        evaluate(Path(sys.argv[2]))
