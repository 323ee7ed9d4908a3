"""The embedding job: each part once, whatever interrupts it; trouble has a reason and loses nothing."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from toy_model import DyingAdapter, ToyAdapter, ToyEncoder
from toy_run import FOLDER, MODEL, embed, make_files, receipt, shards, store, toy_run

from medheb.embed import run as job
from medheb.embed.store import Store
from medheb.evaluate.run import evaluate_task
from medheb.evaluate.score import read_score
from medheb.manifest.load import Run

SMALL = {"shard_inputs": 4, "batch_tokens": 250, "workers": 0}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = toy_run(tmp_path, **SMALL)
    make_files(made)
    return made


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An undisturbed run."""
    made = toy_run(tmp_path_factory.mktemp("clean"), **SMALL)
    make_files(made)
    assert embed(made, ToyAdapter(), ToyEncoder()).ok
    return made


def test_each_part_once_and_a_second_job_embeds_nothing(run: Run) -> None:
    encoder = ToyEncoder()
    assert embed(run, ToyAdapter(), encoder).ok
    first = receipt(run)
    assert (first.inputs, first.parts, first.computed) == (40, 40, 40)
    assert sum(rows for rows, _ in encoder.calls) == 40
    assert first.tokens <= first.padded_tokens == sum(rows * longest for rows, longest in encoder.calls)
    assert len(store(run)) == 40

    def never(*_: object) -> None:
        raise AssertionError("weights were loaded for nothing")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "load_encoder", never)
        patch.setattr(job, "load_adapter", lambda *_: ToyAdapter())
        assert job.embed_inputs(run, MODEL, "toy").ok
    second = receipt(run)
    assert (second.computed, second.batches, second.vectors) == (0, 0, first.vectors)


def test_workers_change_nothing(clean: Run, tmp_path: Path) -> None:
    run = toy_run(tmp_path, **SMALL | {"workers": 2})
    make_files(run)
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert receipt(run).vectors == receipt(clean).vectors
    assert [path.name for path in shards(run)] == [path.name for path in shards(clean)]


def _slowly(root: Path, seconds: float) -> None:
    embed(toy_run(root, **SMALL), ToyAdapter(), ToyEncoder(seconds=seconds))


def test_ten_kills_at_random_moments_give_the_same_store(tmp_path: Path) -> None:
    clean, run = (toy_run(tmp_path / name, **SMALL) for name in ("clean", "killed"))
    for made in (clean, run):
        make_files(made, 400)  # so many that a job is never done before a slow machine kills it
    assert embed(clean, ToyAdapter(), ToyEncoder()).ok
    moments = random.Random(7)
    for _ in range(10):
        before = len(shards(run))
        child = multiprocessing.get_context("fork").Process(target=_slowly, args=(tmp_path / "killed", 0.05))
        child.start()
        wait_for(lambda before=before: len(shards(run)) > before, child)
        time.sleep(moments.uniform(0, 0.15))
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL, "killed while it worked"
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert receipt(run).computed > 0, "there was something left to do"
    assert receipt(run).vectors == receipt(clean).vectors
    assert {path.name: path.read_bytes() for path in shards(run)} == {
        path.name: path.read_bytes() for path in shards(clean)
    }


def wait_for(condition: object, child: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if not child.is_alive() or time.monotonic() > deadline:  # type: ignore[attr-defined]
            return
        time.sleep(0.002)


def test_sigterm_ends_after_the_batch_with_what_is_done(run: Run, clean: Run) -> None:
    child = multiprocessing.get_context("fork").Process(target=_slowly, args=(run.layout.benchmark.parent, 0.4))
    child.start()
    wait_for(lambda: shards(run), child)
    os.kill(child.pid or 0, signal.SIGTERM)
    child.join()
    assert child.exitcode == 128 + signal.SIGTERM
    assert not run.layout.embedded(MODEL, "toy").exists(), "an unfinished job has no receipt"
    kept = len(store(run))
    assert 0 < kept < 40
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert receipt(run).computed == 40 - kept
    assert receipt(run).vectors == receipt(clean).vectors


def test_lost_device_is_a_reason_keeps_what_was_done_and_can_be_tried_again(run: Run, clean: Run) -> None:
    status = embed(run, ToyAdapter(), ToyEncoder(fail_at=6))
    assert (status.state, receipt(run).status) == ("failed", status)
    assert "was lost or failed (CUDA error: unspecified launch failure)" in status.reason
    assert "medheb retry" in status.remedy
    assert receipt(run).computed == len(store(run)) > 0
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert receipt(run).vectors == receipt(clean).vectors


def test_a_fault_of_the_program_is_none_of_these(run: Run) -> None:
    with pytest.raises(ValueError, match="a bug"):
        embed(run, ToyAdapter(), ToyEncoder(fail_at=3, error=ValueError("a bug")))
    assert len(store(run)) > 0


def test_out_of_memory_halves_the_budget_once_and_the_score_says_so(run: Run) -> None:
    encoder = ToyEncoder(largest=130)
    assert embed(run, ToyAdapter(), encoder).ok
    assert len(encoder.calls) - 1 == receipt(run).batches, "one batch ran into the limit, no further one"
    (note,) = receipt(run).notes
    assert note == "memory of CPU ran out: batches of 125 tokens"
    assert len(store(run)) == 40
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medheb.evaluate.run.load_adapter", lambda *_: ToyAdapter())
        assert evaluate_task(run, MODEL, "toy_i2i").ok
    assert note in read_score(run.layout.score(MODEL, "toy_i2i")).warnings
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert (receipt(run).computed, receipt(run).notes) == (0, (note,)), "a later job tells how its vectors were made"


def test_a_killed_job_leaves_its_notes_for_the_next(run: Run) -> None:
    """The first job runs out of memory, stores some shards and is lost before it can write a receipt."""
    encoder = ToyEncoder(largest=130, fail_at=6, error=ValueError("gone"))
    with pytest.raises(ValueError, match="gone"):
        embed(run, ToyAdapter(), encoder)
    assert not run.layout.embedded(MODEL, "toy").exists()
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert receipt(run).notes == ("memory of CPU ran out: batches of 125 tokens",)


def test_out_of_memory_twice_is_a_reason(run: Run) -> None:
    status = embed(run, ToyAdapter(), ToyEncoder(largest=20))
    assert status.state == "failed"
    assert "does not fit into the memory of cpu with" in status.reason
    assert "embed.batch_tokens" in status.remedy


@pytest.mark.parametrize(("value", "what"), [(np.nan, "not finite"), (0.0, "of length zero")])
def test_unusable_vectors_never_enter_the_store(run: Run, value: float, what: str) -> None:
    class Broken(ToyEncoder):
        def encode(self, prepared: list) -> np.ndarray:  # type: ignore[override,type-arg]
            vectors = super().encode(prepared)
            if len(self.calls) > 4:
                vectors[0] = value
            return vectors

    status = embed(run, ToyAdapter(), Broken())
    assert f"gave 1 vectors that are {what}, the first for image input" in status.reason
    assert np.isfinite(store(run).load(list(store(run)))).all()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "text"])
def test_a_damaged_image_is_an_error_never_a_vector(run: Run, workers: int, damage: str) -> None:
    path = run.layout.benchmark / FOLDER / "007.png"
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[:-30])
        case "changed":
            path.write_bytes(content + b"x")
        case "missing":
            path.unlink()
        case "text":
            path.write_text("no picture")
    broken = toy_run(run.layout.benchmark.parent, **SMALL | {"workers": workers})
    status = embed(broken, ToyAdapter(), ToyEncoder())
    assert status.state == "failed"
    assert "007.png" in status.reason
    assert len(store(run)) < 40 if shards(run) else True
    path.write_bytes(content)
    assert embed(broken, ToyAdapter(), ToyEncoder()).ok


def test_a_killed_worker_is_a_reason(run: Run) -> None:
    status = embed(toy_run(run.layout.benchmark.parent, **SMALL | {"workers": 1}), DyingAdapter(), ToyEncoder())
    assert status.state == "failed"
    assert "was killed, most often because memory ran out" in status.reason


def test_damaged_shards_are_embedded_again(run: Run, clean: Run) -> None:
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    first, second, *_ = shards(run)
    first.write_bytes(first.read_bytes()[:-7])
    content = bytearray(second.read_bytes())
    content[-2] ^= 1
    second.write_bytes(bytes(content))
    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    assert 0 < receipt(run).computed <= 8
    assert receipt(run).vectors == receipt(clean).vectors


def _job(root: Path) -> None:
    embed(toy_run(root, **SMALL), ToyAdapter(), ToyEncoder(seconds=0.01))


def test_two_jobs_in_one_store_at_once(run: Run, clean: Run) -> None:
    jobs = [
        multiprocessing.get_context("fork").Process(target=_job, args=(run.layout.benchmark.parent,)) for _ in range(2)
    ]
    for child in jobs:
        child.start()
    for child in jobs:
        child.join()
        assert child.exitcode == 0
    assert receipt(run).vectors == receipt(clean).vectors


def test_two_ranks_share_the_batches_and_one_writes_the_receipt(run: Run, clean: Run) -> None:
    script = Path(__file__).parent / "toy_run.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    result = subprocess.run(
        [*command, str(run.layout.benchmark.parent), json.dumps(SMALL), "0", "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    done = receipt(run)
    assert (done.ranks, done.computed, done.status.state) == (2, 40, "ok")
    assert done.vectors == receipt(clean).vectors
    assert done.batches == receipt(clean).batches


def test_a_killed_job_takes_its_workers_along(run: Run) -> None:
    script = Path(__file__).parent / "toy_run.py"
    options = json.dumps(SMALL | {"workers": 1})
    child = subprocess.Popen(
        [sys.executable, str(script), str(run.layout.benchmark.parent), options, "0.05", "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not shards(run) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    child.kill()
    child.wait()
    while members(child.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not members(child.pid)
    assert len(Store(shards(run)[0].parent)) > 0


def members(session: int) -> list[str]:
    """Commands of the processes of a session that are alive."""
    found = subprocess.run(["ps", "-o", "stat=,args=", "-s", str(session)], capture_output=True, text=True, check=False)
    return [line for line in found.stdout.splitlines() if line.strip() and not line.startswith("Z")]
