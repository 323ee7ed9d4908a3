"""Pin ``envs/*.in`` with everything that they bring into ``envs/*.txt``: `make lock`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ENVS = Path(__file__).resolve().parent.parent / "envs"
HEAD = "# Generated from {name}.in by `make lock`; do not edit.\n"
NOT_PINNED = ("pip==", "setuptools==", "wheel==")


def frozen(requirements: list[Path], constraints: tuple[Path, ...] = ()) -> list[str]:
    """Install ``requirements`` into an empty environment, within ``constraints``, and list what is there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        # The resolver of the pip that comes with an older Python gives up on the clients of hubs.
        subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "pip"], check=True)
        files = [part for path in requirements for part in ("-r", str(path))]
        files += [part for path in constraints for part in ("-c", str(path))]
        subprocess.run([python, "-m", "pip", "install", "-q", *files], check=True)
        listed = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
    # A local build suffix (2.13.0+cpu) names one machine's wheel; the pin is the version.
    return [line.split("+")[0] for line in listed.splitlines() if "==" in line and not line.startswith(NOT_PINNED)]


def write(name: str, lines: list[str]) -> None:
    """Write one pin file."""
    (ENVS / f"{name}.txt").write_text(HEAD.format(name=name) + "\n".join(sorted(lines, key=str.lower)) + "\n")


def main() -> None:
    """Write the pin files; dev and hubs fit core and hold only what they add to it."""
    core = frozen([ENVS / "core.in"])
    write("core", core)
    for name in ("dev", "hubs"):
        together = frozen([ENVS / "core.in", ENVS / f"{name}.in"], (ENVS / "core.txt",))
        write(name, [line for line in together if line not in core])


if __name__ == "__main__":
    main()
