"""Pin ``envs/*.in`` with everything that they bring into ``envs/*.txt``: `make lock`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ENVS = Path(__file__).resolve().parent.parent / "envs"
HEAD = "# Generated from {name}.in by `make lock`; do not edit.\n"
NOT_PINNED = ("pip==", "setuptools==", "wheel==")


def frozen(requirements: list[Path]) -> list[str]:
    """Install ``requirements`` into an empty environment and list what is there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        files = [part for path in requirements for part in ("-r", str(path))]
        subprocess.run([python, "-m", "pip", "install", "-q", *files], check=True)
        listed = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    # A local build suffix (2.13.0+cpu) names one machine's wheel; the pin is the version.
    return [line.split("+")[0] for line in listed.splitlines() if "==" in line and not line.startswith(NOT_PINNED)]


def main() -> None:
    """Write both pin files; dev holds only what it adds to core."""
    core = frozen([ENVS / "core.in"])
    dev = [line for line in frozen([ENVS / "core.in", ENVS / "dev.in"]) if line not in core]
    for name, lines in (("core", core), ("dev", dev)):
        (ENVS / f"{name}.txt").write_text(HEAD.format(name=name) + "\n".join(sorted(lines, key=str.lower)) + "\n")


if __name__ == "__main__":
    main()
