"""Download through pip, from a local folder instead of an index."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_samples import WHEEL, make_tar, pin, tar_member

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.layout import Layout
from medheb.fetch import package, pip_client
from medheb.fetch.package import fetch_package
from medheb.manifest.dataset import SourceFile
from medheb.manifest.hosts import PackageHost

pytestmark = pytest.mark.host("package")


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Record calls of pip instead of making them."""
    calls: list[list[str]] = []

    def record(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found")

    monkeypatch.setattr(pip_client, "run_pip", record)
    return calls


def left(layout: Layout) -> list[str]:
    """Everything in the archive folder but lock files."""
    return sorted(path.name for path in layout.sources.rglob("*") if path.is_file() and path.name != ".lock")


def answer(text: str, host: PackageHost, file: SourceFile) -> MedhebError:
    """What a pip output becomes."""
    return pip_client.pip_trouble(text, host, file, Path("archives/x") / file.path)


def test_download_then_no_pip(shelf: Path, layout: Layout, host: PackageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pin(shelf / WHEEL)
    path = fetch_package(layout, host, file)
    assert path == layout.archive(str(file.sha256), WHEEL)
    assert path.read_bytes() == (shelf / WHEEL).read_bytes()
    assert left(layout) == [WHEEL]

    def forbidden(*_: object) -> None:
        raise AssertionError("pip was called")

    monkeypatch.setattr(pip_client, "run_pip", forbidden)
    assert fetch_package(layout, host, file) == path


def test_sdist_from_a_local_folder(
    shelf: Path, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An sdist with its own build backend, so that nothing has to be installed; secrets do not reach it."""
    backend = (
        "import os, pathlib\n"
        "def prepare_metadata_for_build_wheel(folder, settings=None):\n"
        "    assert 'EXAMPLE_TOKEN' not in os.environ\n"
        "    info = pathlib.Path(folder, 'medheb_sample-1.0.dist-info')\n"
        "    info.mkdir()\n"
        "    (info / 'METADATA').write_text('Metadata-Version: 2.1\\nName: medheb-sample\\nVersion: 1.0\\n')\n"
        "    return info.name\n"
        "def build_wheel(*args):\n"
        "    raise SystemExit('nobody asked for a wheel')\n"
    )
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    root = "medheb_sample-1.0"
    sdist = make_tar(
        shelf / f"{root}.tar.gz",
        tar_member(f"{root}/", kind=tarfile.DIRTYPE),
        tar_member(f"{root}/PKG-INFO", b"Metadata-Version: 2.1\nName: medheb-sample\nVersion: 1.0\n"),
        tar_member(f"{root}/pyproject.toml", project.encode()),
        tar_member(f"{root}/backend.py", backend.encode()),
    )
    monkeypatch.setenv("EXAMPLE_TOKEN", "do-not-pass-on")
    host = PackageHost(kind="package", name="medheb-sample", version="1.0", format="sdist")
    assert fetch_package(layout, host, pin(sdist)).read_bytes() == sdist.read_bytes()
    assert left(layout) == [sdist.name]


def test_other_sha256(shelf: Path, layout: Layout, host: PackageHost) -> None:
    file = pin(shelf / WHEEL)
    wanted = file.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(MedhebError) as caught:
        fetch_package(layout, host, wanted)
    assert not isinstance(caught.value, BlockedError)
    assert str(caught.value).startswith(f"{WHEEL}: has sha256 {file.sha256}, the manifest expects {'0' * 64}")
    assert left(layout) == []


def test_truncated_download(shelf: Path, layout: Layout, host: PackageHost) -> None:
    file = pin(shelf / WHEEL)
    (shelf / WHEEL).write_bytes((shelf / WHEEL).read_bytes()[:300])
    with pytest.raises(MedhebError, match=f"has sha256 [0-9a-f]{{64}}, the manifest expects {file.sha256}"):
        fetch_package(layout, host, file)
    assert left(layout) == []


def test_bytes_are_checked_again_after_pip(
    shelf: Path, layout: Layout, host: PackageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pin(shelf / WHEEL)

    def careless(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        (Path(command[command.index("-d") + 1]) / WHEEL).write_bytes(b"something else")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(pip_client, "run_pip", careless)
    with pytest.raises(MedhebError, match="has sha256"):
        fetch_package(layout, host, file)
    assert left(layout) == []


def test_other_size(shelf: Path, layout: Layout, host: PackageHost) -> None:
    file = pin(shelf / WHEEL).model_copy(update={"bytes": 5})
    with pytest.raises(MedhebError, match="the manifest expects 5"):
        fetch_package(layout, host, file)
    assert left(layout) == []


def test_no_such_version(shelf: Path, layout: Layout, host: PackageHost) -> None:
    file = pin(shelf / WHEEL)
    absent = host.model_copy(update={"version": "9.9"})
    with pytest.raises(BlockedError) as caught:
        fetch_package(layout, absent, file)
    assert "does not offer medheb-sample==9.9 as wheel" in caught.value.fault
    assert str(layout.archive(str(file.sha256), WHEEL)) in caught.value.remedy


def test_unreachable_index_keeps_the_login_secret(
    shelf: Path,
    layout: Layout,
    host: PackageHost,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    # Port 9 of this machine: refused at once, without any network.
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter22@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BlockedError, match="the package index cannot be reached") as caught:
        fetch_package(layout, host, pin(shelf / WHEEL))
    assert "127.0.0.1:9/simple" in caplog.text
    assert "hunter22" not in caplog.text + str(caught.value)


def test_wrong_file_in_the_archive_folder_is_replaced(shelf: Path, layout: Layout, host: PackageHost) -> None:
    file = pin(shelf / WHEEL)
    place = layout.archive(str(file.sha256), WHEEL)
    place.parent.mkdir(parents=True)
    place.write_bytes((shelf / WHEEL).read_bytes()[:-1] + b"?")
    fetch_package(layout, host, file)
    assert place.read_bytes() == (shelf / WHEEL).read_bytes()


def test_leftovers_of_dead_attempts_go_and_of_living_ones_stay(
    shelf: Path, layout: Layout, host: PackageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pin(shelf / WHEEL)
    folder = layout.archive(str(file.sha256), WHEEL).parent
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    monkeypatch.setattr(package.socket, "gethostname", lambda: "here")
    names = {
        "dead": f".{WHEEL}.part.here.{dead.pid}.aaaa",
        "living": f".{WHEEL}.part.here.{os.getppid()}.bbbb",
        "elsewhere": f".{WHEEL}.part.there.{dead.pid}.cccc",
    }
    for name in names.values():
        (folder / name / "came").mkdir(parents=True)
    fetch_package(layout, host, file)
    assert {key for key, name in names.items() if (folder / name).exists()} == {"living", "elsewhere"}


def test_disk_too_small(
    shelf: Path, layout: Layout, host: PackageHost, no_pip: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medheb.fetch.space.shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(BlockedError, match="the disk has less than the 0 MB that"):
        fetch_package(layout, host, pin(shelf / WHEEL))
    assert no_pip == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sha256": None}, "no size or sha256"),
        ({"bytes": None}, "no size or sha256"),
        ({"path": "sample.tar.gz"}, "not the file name of a wheel"),
        ({"path": f"folder/{WHEEL}"}, "not the file name of a wheel"),
    ],
)
def test_unpinned_or_misnamed(
    shelf: Path, layout: Layout, host: PackageHost, no_pip: list[list[str]], changes: dict[str, None], expected: str
) -> None:
    with pytest.raises(MedhebError, match=expected):
        fetch_package(layout, host, pin(shelf / WHEEL).model_copy(update=changes))
    assert no_pip == []


def test_command_line(host: PackageHost) -> None:
    command = pip_client.pip_command(host, Path("r.txt"), Path("d"))
    assert command[0] == sys.executable
    assert {"--no-deps", "--require-hashes", "--no-input", "--disable-pip-version-check"} <= set(command)
    assert command[command.index("--only-binary") + 1] == ":all:"
    sdist = host.model_copy(update={"format": "sdist"})
    command = pip_client.pip_command(sdist, Path("r.txt"), Path("d"))
    assert command[command.index("--no-binary") + 1] == host.name


@pytest.mark.parametrize(
    ("text", "blocked", "expected"),
    [
        ("/usr/bin/python: No module named pip", True, "no pip"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            True,
            "disk is full",
        ),
        ("WARNING: 403 Client Error: Forbidden for url: https://index/simple", True, "refused the request"),
        ("WARNING: Retrying (Retry(total=0)) after connection broken by 'x'", True, "cannot be reached"),
        (
            "Could not fetch URL https://h: There was a problem confirming the ssl certificate",
            True,
            "cannot be reached",
        ),
        ("ERROR: No matching distribution found for medheb-sample==1.0", True, "does not offer"),
        ("ERROR: odd thing at 0x7f00aa in /tmp/pip-req-1234/x", False, "odd thing at ... in ..."),
        ("", False, "no message"),
    ],
)
def test_pip_outputs(host: PackageHost, text: str, blocked: bool, expected: str) -> None:
    file = SourceFile(path=WHEEL, bytes=1, sha256="0" * 64, digest_source="none")
    error = answer(text, host, file)
    assert isinstance(error, BlockedError) == blocked
    assert expected in error.fault
    assert "\n" not in str(error)


def test_failed_metadata_of_an_sdist(host: PackageHost) -> None:
    file = SourceFile(path="medheb_sample-1.0.tar.gz", bytes=1, sha256="0" * 64, digest_source="none")
    sdist = host.model_copy(update={"format": "sdist"})
    error = answer(
        "ERROR: No matching distribution found for setuptools\nerror: metadata-generation-failed", sdist, file
    )
    assert isinstance(error, BlockedError)
    assert "could not read its metadata" in error.fault


def test_urls_are_scrubbed() -> None:
    text = pip_client.scrub_urls("from https://abc123@host/p/x.whl?sig=s3cret#sha256=00 (from -r x)")
    assert text == "from https://[secret]@host/p/x.whl[secret] (from -r x)"
