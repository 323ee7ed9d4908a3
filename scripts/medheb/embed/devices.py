"""What a job computes on, how it shares its cores, and what a failing device looks like."""

from __future__ import annotations

import logging
import os
from typing import Literal

from medheb.core.errors import MedhebError
from medheb.manifest.config import Embed
from medheb.manifest.load import Run
from medheb.models.load import uses_device

log = logging.getLogger("medheb.embed")
GPU_TOKENS, CPU_TOKENS = 32_768, 4_096
WORTH_A_WORKER = 512  # images; below, starting processes costs more than they save

Trouble = Literal["memory", "device"]


def choose_device(wanted: Literal["auto", "cpu", "cuda"], local_rank: int = 0) -> str:
    """``cpu``, or the GPU of this rank.

    Raises:
        MedhebError: a GPU is wanted and there is none, or fewer than ranks: some would compute on a CPU, in another
            number format.
    """
    if wanted == "cpu":
        return "cpu"
    import torch

    count = torch.cuda.device_count()
    if local_rank < count:
        return f"cuda:{local_rank}"
    if count or wanted == "cuda":
        raise MedhebError(
            f"GPU {local_rank}",
            f"is not there: torch sees {count}",
            "Run on a GPU node with as many GPUs as ranks, or set embed.device: cpu",
        )
    granted = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("SLURM_JOB_GPUS")
    if granted:
        log.warning("GPU %s was given to this job, but torch sees none: it computes on the CPU", granted)
    return "cpu"


def token_budget(options: Embed, device: str) -> int:
    """Most tokens of a batch."""
    return options.batch_tokens or (GPU_TOKENS if device.startswith("cuda") else CPU_TOKENS)


def worker_count(options: Embed, device: str, threads: int, images: int) -> int:
    """Processes that decode ahead of the network.

    A GPU leaves the job's cores to them; on a CPU the network needs the cores, and a few workers fill its gaps.

    Args:
        options: of the run.
        device: of the network.
        threads: of this rank.
        images: pictures and slices that are to be decoded.
    """
    if options.workers is not None:
        return options.workers
    if images < WORTH_A_WORKER:
        return 0
    return max(1, threads - 1) if device.startswith("cuda") else max(1, threads // 4)


def gpus_for(run: Run, model_id: str) -> int:
    """GPUs of this job that a model can use."""
    if run.config.embed.device == "cpu" or not uses_device(run.models[model_id]):
        return 0
    import torch

    return torch.cuda.device_count()


def device_title(device: str) -> str:
    """Name of a device for receipts and messages."""
    if device == "cpu":
        return "CPU"
    import torch

    return str(torch.cuda.get_device_name(device))


def trouble_of(error: BaseException) -> Trouble | None:
    """Whether an error means that memory ran out or that the device failed; None for any other.

    By name and message, so that models without torch do without it here too.
    """
    text = str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "memory"
    if isinstance(error, RuntimeError):
        if "not enough memory" in text or "can't allocate memory" in text:
            return "memory"
        if type(error).__name__ == "AcceleratorError" or "CUDA error" in text or "cuDNN error" in text:
            return "device"
    return None


def free_memory(device: str) -> None:
    """Give cached memory of a GPU back before a second try."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
