"""What a job computes on, and what a failing device looks like; ranks of a job."""

import sys

import pytest
import torch

from medheb.core.errors import MedhebError
from medheb.embed import ranks
from medheb.embed.devices import choose_device, token_budget, trouble_of, worker_count
from medheb.embed.ranks import Ranks, start_ranks
from medheb.manifest.config import Embed


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), "memory"),
        (MemoryError(), "memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "memory"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"), "memory"),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), "device"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "device"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (ValueError("CUDA error in a text of ours"), None),
    ],
)
def test_trouble_is_told_from_faults_of_the_program(error: Exception, trouble: str | None) -> None:
    assert trouble_of(error) == trouble


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("gpus")
def test_each_rank_has_its_gpu() -> None:
    assert [choose_device("auto", local) for local in (0, 1)] == ["cuda:0", "cuda:1"]
    assert choose_device("cpu", 0) == "cpu"
    for wanted in ("auto", "cuda"):  # a rank on a CPU beside those on GPUs would use another number format
        with pytest.raises(MedhebError, match=r"GPU 2: is not there: torch sees 2.*embed.device: cpu"):
            choose_device(wanted, 2)


def test_a_granted_gpu_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("SLURM_JOB_GPUS", raising=False)
    assert choose_device("auto", 1) == "cpu", "ranks on CPUs"
    assert not caplog.records
    monkeypatch.setenv("SLURM_JOB_GPUS", "3")
    assert choose_device("auto") == "cpu"
    assert "GPU 3 was given to this job, but torch sees none" in caplog.text
    with pytest.raises(MedhebError, match=r"GPU 0: is not there: torch sees 0"):
        choose_device("cuda")


def test_workers_and_budget_follow_the_device_and_give_way_to_options() -> None:
    assert worker_count(Embed(), "cuda:0", threads=8, images=10_000) == 7
    assert worker_count(Embed(), "cpu", threads=8, images=10_000) == 2
    assert worker_count(Embed(), "cpu", threads=2, images=10_000) == 1
    assert worker_count(Embed(), "cuda:0", threads=8, images=100) == 0
    assert worker_count(Embed(workers=3), "cpu", threads=8, images=1) == 3
    assert (token_budget(Embed(), "cuda:1"), token_budget(Embed(), "cpu")) == (32_768, 4_096)
    assert token_budget(Embed(batch_tokens=99), "cuda:1") == 99


def test_several_gpus_start_one_rank_each_with_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(ranks.os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(sys, "argv", ["medheb", "--config", "a.yaml", "embed", "siglip", "kvasir"])
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    start_ranks(0)
    start_ranks(1)
    assert started == []
    start_ranks(4)
    ((_, *command),) = started
    assert " ".join(command) == (
        "-m torch.distributed.run --standalone --nproc-per-node 4 -m medheb --config a.yaml embed siglip kvasir"
    )
    monkeypatch.setenv("WORLD_SIZE", "4")
    start_ranks(4)
    assert len(started) == 1, "a rank starts no ranks"


def test_ranks_without_a_place_to_meet_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(MedhebError, match=r"MASTER_ADDR is not set\. Start the ranks with torchrun"):
        Ranks.from_environment()
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert Ranks.from_environment() == Ranks(0, 1, 0)
    assert Ranks().gather({"a": [1]}) == [{"a": [1]}]
