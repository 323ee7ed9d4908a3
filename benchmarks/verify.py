"""Figures of the check of a local copy: ``python benchmarks/verify.py``. One line each, as in ``run.py``.

The same files are read by coreutils' ``sha256sum`` in the same run, and the list by a plain split parser.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from run import show

from medheb.core.digests import sha256_file
from medheb.fetch.check_files import Wanted, check_files
from medheb.fetch.digest_cache import DigestCache

FILES, FILE_BYTES = 64, 16 << 20
REPEATS = 3
# Files of MIMIC-CXR-JPG 2.0.0.
LINES = 377_110
PARSE = """
import sys, time
from pathlib import Path
from peak import peak_mb
from medheb.fetch.physionet import matching
from medheb.fetch.sums import read_sums
started = time.monotonic()
sums = read_sums(Path(sys.argv[1]), "list")
found, idle = matching(sums.digests, ["files/*.jpg", "*.csv.gz"])
seconds = time.monotonic() - started
assert len(found) == len(sums.digests) and idle == ["*.csv.gz"]
print(seconds, peak_mb())
"""


def fastest(work: Callable[[], object]) -> float:
    """Seconds of the fastest of a few tries; the first one also warms the file cache."""
    seconds = []
    for _ in range(REPEATS):
        started = time.monotonic()
        work()
        seconds.append(time.monotonic() - started)
    return min(seconds)


def side_by_side(commands: list[list[str]]) -> None:
    """Run commands at the same time; on a busy machine two of them are the fair measure of two workers."""
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    if any(process.wait() for process in running):
        sys.exit("sha256sum failed")


def bench_verify() -> None:
    """1 GB of files: one and two workers against one and two ``sha256sum``; ratios of throughput, more is better."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "copy"
        root.mkdir()
        wanted = []
        for number in range(FILES):
            content = number.to_bytes(16, "big") * (FILE_BYTES // 16)
            (root / f"{number:02}.dcm").write_bytes(content)
            wanted.append(Wanted(f"{number:02}.dcm", hashlib.sha256(content).digest()))

        def ours(workers: int) -> None:
            cache = DigestCache(Path(folder) / "cache", reread=True)
            found = check_files(root, wanted, cache, "bench", workers)
            if {verdict.state for verdict in found} != {"ok"}:
                sys.exit("the check found right files wrong")

        names = [str(path) for path in sorted(root.iterdir())]
        plain = fastest(lambda: subprocess.run(["sha256sum", *names], check=True, stdout=subprocess.DEVNULL))
        plain_two = fastest(lambda: side_by_side([["sha256sum", *names[0::2]], ["sha256sum", *names[1::2]]]))
        one, two = fastest(lambda: ours(1)), fastest(lambda: ours(2))
        # Some builds of sha256sum do not use the processor's own instructions; hashlib in a plain loop is the bound.
        bound = fastest(lambda: [sha256_file(root / item.path) for item in wanted])
    show(
        "verify",
        mb_per_second=FILES * FILE_BYTES / 1e6 / one,
        ratio=plain / one,
        ratio_two_workers=plain / two,
        ratio_two_against_two=plain_two / two,
        of_bound=bound / one,
        of_bound_two_workers=bound / two,
    )


def bench_sums() -> None:
    """The list of MIMIC-CXR-JPG parsed and matched: seconds, peak MB of the process, time against a split parser."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "SHA256SUMS.txt"
        with path.open("w", encoding="utf-8") as stream:
            for i in range(LINES):
                digest = hashlib.sha256(i.to_bytes(4, "big")).hexdigest()
                name = "-".join(digest[start : start + 8] for start in range(0, 40, 8))
                subject, study = 10_000_000 + i // 6, 50_000_000 + i // 2
                stream.write(f"{digest} files/p{10 + i % 10}/p{subject}/s{study}/{name}.jpg\n")
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent)}
        command = [sys.executable, "-c", PARSE, str(path)]
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        seconds, megabytes = map(float, output.stdout.split())

        def split() -> dict[str, str]:
            with path.open(encoding="utf-8") as lines:
                return {name: digest for digest, _, name in (line.rstrip("\n").partition(" ") for line in lines)}

        plain = fastest(split)
    show("sums", lines=LINES, seconds=seconds, peak_mb=megabytes, times_split_parser=seconds / plain)


if __name__ == "__main__":
    bench_verify()
    bench_sums()
