"""Run the ordinary pip client to download one distribution, and say in one line why it could not."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.log import SECRET_NAMES, scrub
from medheb.manifest.dataset import SourceFile
from medheb.manifest.hosts import PackageHost

LOG = logging.getLogger("medheb.fetch")
TIME_LIMIT_S = 3600
SOCKET_TIMEOUT_S = "60"
LOGGED_LINES = 8
MAX_LINE = 200

MISMATCH = re.compile(r"Expected sha256 ([0-9a-f]{64}).*?Got\s+([0-9a-f]{64})", re.DOTALL)
NO_PIP = re.compile(r"No module named pip\b")
DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
REFUSED = re.compile(
    r"\b(401|403|407)\b[^\n]*(?:Client Error|Error|Unauthorized|Forbidden|Authentication)", re.IGNORECASE
)
UNREACHABLE = re.compile(
    r"Retrying \(|Max retries exceeded|NewConnectionError|Connection ?(?:refused|reset|aborted|broken|error)|"
    r"Could not fetch URL|name resolution|Name or service not known|Network is unreachable|ProxyError|SSLError|"
    r"CERTIFICATE_VERIFY_FAILED|timed out|TimeoutError|Failed to connect|Unable to connect|IncompleteRead",
    re.IGNORECASE,
)
NOT_OFFERED = re.compile(r"No matching distribution found|Could not find a version that satisfies")
BUILD_FAILED = re.compile(
    r"metadata-generation-failed|subprocess-exited-with-error|Failed to build|BackendUnavailable|"
    r"Cannot import '|installing build dependencies|Preparing metadata[^\n]*error",
    re.IGNORECASE,
)
URL_SECRETS = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[\w/])[?#][^\s'\")]*(?==)[^\s'\")]*")
# What differs from run to run must not reach a status file.
VOLATILE = re.compile(r"0x[0-9a-fA-F]+|(?<![\w.])/[^\s'\"]+")


def download(host: PackageHost, file: SourceFile, folder: Path, archive: Path) -> Path:
    """Let pip download ``host`` into ``folder`` and return the file that came.

    pip gets the pinned sha256 and compares it before it does anything with the file. A wheel is only
    saved. For an sdist pip goes on and asks the package's build backend for metadata, in an isolated
    environment; no option of ``pip download`` avoids that (as of pip 26), not even ``--no-deps``. So for
    an sdist package code runs once, after the digest was compared, and it gets an environment without
    variables whose names look like secrets. Where that is not wanted, put the verified archive in place
    by hand: the step then never calls pip.

    Args:
        host: what to download.
        file: its pinned name and sha256.
        folder: an empty folder; pip's own temporary files go there as well.
        archive: where the archive belongs, named in remedies.

    Raises:
        BlockedError: no pip, no network, no such version, no disk.
        MedhebError: another sha256, or any other refusal of pip.
    """
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{host.name}=={host.version} --hash=sha256:{file.sha256}\n", encoding="utf-8")
    came, scratch = folder / "came", folder / "scratch"
    came.mkdir()
    scratch.mkdir()
    try:
        outcome = run_pip(pip_command(host, requirement, came), pip_environment(host, scratch))
    except subprocess.TimeoutExpired:
        raise BlockedError(
            file.path, f"pip did not finish within {TIME_LIMIT_S} s", f"Try again, or {_by_hand(archive)}"
        ) from None
    if outcome.returncode:
        text = scrub_urls(scrub(outcome.stdout + "\n" + outcome.stderr))
        for line in [line for line in text.splitlines() if line.strip()][-LOGGED_LINES:]:
            LOG.warning("pip: %s", line[:MAX_LINE])
        raise pip_trouble(text, host, file, archive)
    files = sorted(path for path in came.iterdir() if path.is_file())
    if len(files) != 1:
        raise MedhebError(file.path, f"pip left {len(files)} files instead of one", "Try another version of pip")
    return files[0]


def pip_command(host: PackageHost, requirement: Path, folder: Path) -> list[str]:
    """The command line. Nothing is installed, so the package's demands on Python do not matter."""
    # --no-binary by name: with :all: the build backend itself would have to be built from source.
    chosen = ["--only-binary", ":all:"] if host.format == "wheel" else ["--no-binary", host.name]
    return [
        *(sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color"),
        *("download", "--no-deps", "--require-hashes", "--ignore-requires-python", "--progress-bar", "off"),
        *chosen,
        *("-d", str(folder), "-r", str(requirement)),
    ]


def pip_environment(host: PackageHost, scratch: Path) -> dict[str, str]:
    """The user's environment, so that proxies and indexes hold, with pip's temporary files in ``scratch``."""
    environment = dict(os.environ)
    if host.format == "sdist":
        environment = {name: value for name, value in environment.items() if not SECRET_NAMES.search(name)}
    environment.setdefault("PIP_DEFAULT_TIMEOUT", SOCKET_TIMEOUT_S)
    environment["TMPDIR"] = str(scratch.absolute())
    return environment


def scrub_urls(text: str) -> str:
    """``text`` without logins and without signed parts (``?token=...``) of URLs."""
    return URL_SECRETS.sub("[secret]", text)


def run_pip(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run pip to its end, without a terminal."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=TIME_LIMIT_S,
        check=False,
    )


def pip_trouble(text: str, host: PackageHost, file: SourceFile, archive: Path) -> MedhebError:
    """The error behind pip's (scrubbed) output: one line, the same whenever the cause is the same."""
    pinned = f"{host.name}=={host.version}"
    by_hand = _by_hand(archive)
    if mismatch := MISMATCH.search(text):
        return digest_trouble(file, mismatch.group(2))
    if NO_PIP.search(text):
        return BlockedError(file.path, "this Python has no pip", f"Run 'python -m ensurepip', or {by_hand}")
    if DISK_FULL.search(text):
        return BlockedError(file.path, "the disk is full", "Free some space and run again")
    if REFUSED.search(text):
        return BlockedError(
            file.path, "the package index refused the request", f"Check pip's index and login, or {by_hand}"
        )
    if UNREACHABLE.search(text):
        return BlockedError(
            file.path,
            "the package index cannot be reached",
            f"Check the network, proxy and index of pip ('pip config list'), or {by_hand}",
        )
    if host.format == "sdist" and BUILD_FAILED.search(text):
        return BlockedError(
            file.path, "pip verified the archive but could not read its metadata (see the log)", f"You can {by_hand}"
        )
    if NOT_OFFERED.search(text):
        return BlockedError(
            file.path, f"the package index does not offer {pinned} as {host.format}", f"You can {by_hand}"
        )
    errors = [line for line in text.splitlines() if line.lstrip().startswith("ERROR:")] or ["no message"]
    detail = VOLATILE.sub("...", errors[-1].strip().removeprefix("ERROR:").strip())[:MAX_LINE]
    return MedhebError(file.path, f"pip could not download {pinned} ({detail})", f"See the log, or {by_hand}")


def digest_trouble(file: SourceFile, got: str) -> MedhebError:
    """The refusal of a file that is not the pinned one."""
    return MedhebError(
        file.path,
        f"has sha256 {got}, the manifest expects {file.sha256}",
        "It was not used; find out why it differs, and change the manifest only if the new file is right",
    )


def _by_hand(archive: Path) -> str:
    return f"get the file another way and put it at {archive}; it is verified there"
