"""What the digests were made with. Kept apart from the roots, so that those of two sites can be compared."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import isal
from PIL import features

import medheb
from medheb.core.digests import sha256_file
from medheb.core.json_text import parse_json

# The libraries that decide the bytes of an image file while its pixels stay the same.
ENCODERS = {"pillow": "pil", "zlib": "zlib", "libjpeg": "jpg", "libjpeg_turbo": "libjpeg_turbo"}


def describe_environment() -> dict[str, Any]:
    """Interpreter, platform, processors, container, image libraries, all packages. No host or user name, no time."""
    packages = {dist.metadata["Name"].lower(): dist.version for dist in distributions() if dist.metadata["Name"]}
    return {
        "medheb": medheb.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "cpu": cpu_model(),
        "gpus": gpus(),
        "container": container(),
        "encoders": encoder_versions(),
        "packages": dict(sorted(packages.items())),
    }


def encoder_versions() -> dict[str, str]:
    """Versions of the image library, of what it really loaded, and of ISA-L, which compresses most PNG files."""
    found = {name: features.version(feature) or "absent" for name, feature in ENCODERS.items()}
    return found | {"isal": isal.ISAL_VERSION}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Processor name, or what the platform knows where the kernel has no such list."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def gpus() -> list[dict[str, str]]:
    """Name and driver version of each NVIDIA GPU; empty where there is none or its tool does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.rpartition(",") for line in done.stdout.splitlines() if "," in line)
    return [{"name": name.strip(), "driver": driver.strip()} for name, _, driver in rows]


def container(environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """Name and sha256 of the container image that this runs in, None outside of one.

    Apptainer tells the image file, whose digest is taken; for others set MEDHEB_CONTAINER to ``name@sha256:...``.
    """
    told = environment.get("MEDHEB_CONTAINER", "")
    if told:
        name, _, digest = told.partition("@sha256:")
        return {"name": name, "sha256": digest or "unknown"}
    image = environment.get("APPTAINER_CONTAINER") or environment.get("SINGULARITY_CONTAINER")
    if not image:
        return None
    try:
        return {"name": Path(image).name, "sha256": sha256_file(Path(image))}
    except OSError:
        return {"name": Path(image).name, "sha256": "unknown"}


def encoder_differences(environment: Path) -> dict[str, str]:
    """Image libraries whose version here is not the recorded one, in words."""
    here = encoder_versions()
    try:
        content = parse_json(environment.read_bytes())
        recorded = content["encoders"]
    except (OSError, ValueError, KeyError, TypeError):
        recorded = {}
    if not isinstance(recorded, Mapping):
        recorded = {}
    return {
        name: f"{recorded.get(name, 'unknown')} recorded, {version} here"
        for name, version in here.items()
        if recorded.get(name, "unknown") != version
    }
