"""Real small and read-only disks: tmpfs in a mount namespace of its own, so that nothing of the machine changes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_samples import make_zip
from servers.plain import Loopback, loopback

MOUNT = (
    'mount -t tmpfs -o size="$2" none "$1" && mkdir "$1/sources" && mount -o "remount,$3" "$1" && shift 3 && exec "$@"'
)
FETCH = """
import sys
from pathlib import Path
from dispatch_samples import a_run, content, pinned
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.fetch import delivery
from medheb.fetch.source import fetch_source
from medheb.manifest.dataset import Unpack
from medheb.manifest.hosts import HttpsHost
disk, archive = Path(sys.argv[1]), Path(sys.argv[2])
# Whoever fills the disk may do so after we looked.
delivery.require_space = lambda *_: None
host = HttpsHost(kind="https", base="https://data.example.org/")
file = pinned("a.zip", archive.read_bytes())
run = a_run(Layout(disk / "sources", disk / "MedHEB", disk / "results"), host, file,
            unpack=Unpack(include=("*",), max_bytes=10**9, max_ratio=10**4))
try:
    status = fetch_source(run, "sample")
    print(status.state, status.reason, sep="|")
except MedhebError as error:
    print("refused", error, sep="|")
print(*sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.is_file()), sep="|")
"""


@pytest.fixture
def server() -> Iterator[Loopback]:
    """Serves the archive."""
    with loopback() as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    """Needed for a mount that only the tested process sees."""
    tool = shutil.which("unshare")
    if tool is None or subprocess.run([tool, "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a mount namespace (unshare -rm)")


def fetch(server: Loopback, tmp_path: Path, members: dict[str, bytes], size: str, mode: str) -> tuple[str, list[str]]:
    """State and reason of a fetch onto such a disk, and the files that lie there afterwards."""
    disk = tmp_path / "disk"
    disk.mkdir()
    archive = make_zip(tmp_path / "a.zip", members)
    server.files["/a.zip"] = archive.read_bytes()
    here = Path(__file__).resolve().parent
    command = ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(disk), size, mode, sys.executable, "-c", FETCH, str(disk)]
    environment = {**os.environ, "PYTHONPATH": str(here), "MEDHEB_HTTPS_URL": server.url, "HOME": str(tmp_path)}
    result = subprocess.run([*command, str(archive)], capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    told, left = result.stdout.splitlines()
    return told, sorted(name for name in left.split("|") if name)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_a_disk_that_fills_up_during_the_transfer(server: Loopback, tmp_path: Path) -> None:
    told, left = fetch(server, tmp_path, {"a.txt": noise(3_000_000)}, "2m", "rw")
    assert told.startswith("blocked|")
    assert "the disk is full" in told
    assert left == ["sources/sample/status.json"]


def test_a_disk_that_fills_up_while_unpacking(server: Loopback, tmp_path: Path) -> None:
    told, left = fetch(server, tmp_path, {"a.txt": noise(500_000), "b.txt": bytes(9_000_000)}, "4m", "rw")
    assert told.startswith("blocked|")
    assert "the disk is full" in told
    assert [name for name in left if not name.startswith("sources/archives/")] == ["sources/sample/status.json"]
    assert len(left) == 2, "the verified archive stays, so that it need not come again"


def test_a_disk_that_is_large_enough(server: Loopback, tmp_path: Path) -> None:
    told, left = fetch(server, tmp_path, {"a.txt": noise(500_000)}, "8m", "rw")
    assert told == "ok|"
    assert "sources/sample/files/a.txt" in left


def test_a_read_only_disk_cannot_even_hold_a_status(server: Loopback, tmp_path: Path) -> None:
    told, left = fetch(server, tmp_path, {"a.txt": b"x"}, "2m", "ro")
    assert told.startswith("refused|")
    assert "sources/sample/status.json: the folder for it cannot be used (Read-only file system)" in told
    assert "paths in the configuration" in told
    assert left == []
