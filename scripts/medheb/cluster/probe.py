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


def findings() -> dict[str, object]:
    """Node, interpreter, cores, and the GPUs that Slurm granted and the driver shows."""
    granted = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("SLURM_JOB_GPUS") or ""
    return {
        "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        "medheb": __version__,
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)),
        "granted": granted,
        "driver": _driver(),
    }


def _driver() -> list[str]:
    """GPUs that NVIDIA's own tool lists; without it, or without a driver, none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        result = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return result.stdout.splitlines() if result.returncode == 0 else []


if __name__ == "__main__":
    write_json(Path(sys.argv[1]), findings())
    print(json.dumps(findings()))
