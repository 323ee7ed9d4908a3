"""The report of the full benchmark from made-up scores: seconds, peak memory, size. `python benchmarks/report.py`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

SECONDS_ALLOWED, MEGABYTES_ALLOWED, PAGE_ALLOWED = 180, 4000, 15_000_000
MAKE = "from medheb.report.example import *; run = example_run(Path(sys.argv[1]))"


def child(code: str, folder: str) -> tuple[float, float]:
    """Seconds and peak resident memory in MB of a piece of Python in a process of its own."""
    started = time.monotonic()
    process = psutil.Popen([sys.executable, "-c", f"import sys; from pathlib import Path; {MAKE}; {code}", folder])
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, process.memory_info().rss)
        except psutil.NoSuchProcess:
            break
        time.sleep(0.1)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, code)
    return time.monotonic() - started, peak / 1e6


def main() -> None:
    """Make the example, then measure its report."""
    with tempfile.TemporaryDirectory() as folder:
        made, _ = child("fill_example(run)", folder)
        seconds, memory = child("from medheb.report.run import collect_report; collect_report(run, BANNER)", folder)
        files = len(list(Path(folder, "scores").rglob("*.json")))
        page = Path(folder, "report", "index.html").stat().st_size
    print(
        f"bench report seconds={seconds:.3g} seconds_allowed={SECONDS_ALLOWED} memory_mb={memory:.3g} "
        f"memory_allowed={MEGABYTES_ALLOWED} page_mb={page / 1e6:.3g} score_files={files} made_seconds={made:.3g}"
    )
    if seconds > SECONDS_ALLOWED or memory > MEGABYTES_ALLOWED or page > PAGE_ALLOWED:
        sys.exit("the report is too slow, too large, or needs too much memory")


if __name__ == "__main__":
    main()
