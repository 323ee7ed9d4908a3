"""What the digests were made with. Kept apart from the roots, so that those of two sites can be compared."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from PIL import features

import medheb

# The libraries that decide the bytes of an image file while its pixels stay the same.
ENCODERS = {"pillow": "pil", "zlib": "zlib", "libjpeg": "jpg", "libjpeg_turbo": "libjpeg_turbo"}


def describe_environment() -> dict[str, Any]:
    """Interpreter, platform, processor, image libraries and all installed packages. No host or user name, no time."""
    packages = {dist.metadata["Name"].lower(): dist.version for dist in distributions() if dist.metadata["Name"]}
    return {
        "medheb": medheb.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "cpu": cpu_model(),
        "encoders": encoder_versions(),
        "packages": dict(sorted(packages.items())),
    }


def encoder_versions() -> dict[str, str]:
    """Versions of the image library and of the libraries it really loaded."""
    return {name: features.version(feature) or "absent" for name, feature in ENCODERS.items()}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Processor name, or what the platform knows where the kernel has no such list."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def encoder_differences(environment: Path) -> dict[str, str]:
    """Image libraries whose version here is not the recorded one, in words."""
    here = encoder_versions()
    try:
        content = json.loads(environment.read_bytes())
        recorded = content["encoders"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        recorded = {}
    if not isinstance(recorded, Mapping):
        recorded = {}
    return {
        name: f"{recorded.get(name, 'unknown')} recorded, {version} here"
        for name, version in here.items()
        if recorded.get(name, "unknown") != version
    }
