"""What a job of ``medheb doctor --slurm`` finds on its node: ``python -m medheb.cluster.probe FILE``."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from medheb import __version__
from medheb.core.files import write_json

# What stays written where torch takes the whole job with it.
FATAL = {
    "version": None,
    "cuda": None,
    "gpus": 0,
    "trouble": "the job ended while it was tried (crash, memory or time)",
}


def probe(file: Path) -> dict[str, object]:
    """Write what is found; torch is asked where there is a GPU only, as its import takes seconds."""
    found = findings()
    if found["granted"] and found["driver"]:
        write_json(file, found | {"torch": FATAL})
        found["torch"] = _torch()
    write_json(file, found)
    return found


def findings() -> dict[str, object]:
    """Node, interpreter, cores, and the GPUs that Slurm granted and the driver shows."""
    granted = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("SLURM_JOB_GPUS") or ""
    return {
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "medheb": __version__,
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)),
        "granted": granted,
        "driver": _nvidia_smi("-L"),
        "driver_version": next(iter(_nvidia_smi("--query-gpu=driver_version", "--format=csv,noheader")), ""),
        "torch": None,
    }


def _torch() -> dict[str, object]:
    """Torch's version, the CUDA that it was built for, the GPUs that it sees, and why it cannot use them."""
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being imported is the answer
        return {"version": None, "cuda": None, "gpus": 0, "trouble": _one_line(error)}
    gpus, trouble = torch.cuda.device_count(), ""
    if torch.version.cuda:
        try:
            # Torch counts what the driver lists, even if that driver is too old for this build: only computing tells.
            torch.ones(1, device="cuda").sum().item()
        except Exception as error:  # noqa: BLE001 - whatever the GPU stack raises is the answer
            trouble = _one_line(error)
    return {"version": str(torch.__version__), "cuda": torch.version.cuda, "gpus": gpus, "trouble": trouble}


def _one_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _nvidia_smi(*options: str) -> list[str]:
    """Lines of NVIDIA's own tool: without it, or without a driver, none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        result = subprocess.run([tool, *options], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return result.stdout.splitlines() if result.returncode == 0 else []


if __name__ == "__main__":
    print(json.dumps(probe(Path(sys.argv[1]))))
