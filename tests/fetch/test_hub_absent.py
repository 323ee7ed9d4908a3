"""Without an optional library its hosts are blocked with the one command that installs it; nothing else breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hub_samples import TRANSFER, clean_home, dataset

from medheb.core.errors import BlockedError
from medheb.fetch.hosts._hub import require_private
from medheb.fetch.remote import RemoteFile, client_for
from medheb.manifest.hosts import (
    GoogleDriveHost,
    KaggleCompetitionHost,
    KaggleDatasetHost,
    ModelScopeHost,
    SynapseHost,
)

HOSTS: list[tuple[str, Any]] = [
    ("kagglesdk", KaggleDatasetHost(kind="kaggle_dataset", name="owner/set")),
    ("kagglesdk", KaggleCompetitionHost(kind="kaggle_competition", name="contest")),
    ("synapseclient", SynapseHost(kind="synapse", entities=("syn1",))),
    ("gdown", GoogleDriveHost(kind="google_drive", file_id="1234567890ab")),
    ("modelscope-hub", ModelScopeHost(kind="modelscope", repository="Group/Set")),
]


@pytest.mark.parametrize(("library", "host"), HOSTS, ids=[host.kind for _, host in HOSTS])
def test_an_absent_library_blocks_with_the_command(
    library: str, host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_home(tmp_path, monkeypatch)
    module = library.replace("-", "_")
    for name in [module, *(name for name in sys.modules if name.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    client = client_for(host.kind)
    with pytest.raises(BlockedError) as caught:
        client.fetch(dataset(host), host, RemoteFile("a.zip", "1:2"), tmp_path / "run/a.zip", TRANSFER)
    assert caught.value.fault == f"needs the optional client {library}"
    assert caught.value.remedy == "Install it with: pip install -r envs/hubs.txt"
    assert not (tmp_path / "run/a.zip").exists()


def test_clients_import_no_optional_library(tmp_path: Path) -> None:
    code = (
        "import sys; from medheb.fetch.remote import client_for;"
        f"[client_for(kind) for kind in {[host.kind for _, host in HOSTS]}];"
        "print([name for name in ('kagglesdk', 'synapseclient', 'gdown', 'modelscope_hub') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


def test_a_credentials_file_must_be_private(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert not require_private(path)
    path.write_text("x")
    path.chmod(0o600)
    assert require_private(path)
    path.chmod(0o604)
    with pytest.raises(BlockedError, match=r"may be read by others.*chmod 600"):
        require_private(path)
