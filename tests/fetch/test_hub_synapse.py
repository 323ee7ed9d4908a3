"""Synapse client against a loopback site, through the real ``synapseclient``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_samples import CANARY, TRANSFER, assert_nowhere, clean_home, dataset, md5, source_file, tree
from servers.hub_base import Server, page_reply
from servers.synapse import SIGNATURE, Synapse

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts.synapse import CLIENT
from medheb.manifest.hosts import SynapseHost

pytest.importorskip("synapseclient", reason="optional client synapseclient is not installed")

BIG = bytes(range(256)) * 2000
HOST = SynapseHost(kind="synapse", entities=("syn1", "syn20"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Synapse]:
    home = clean_home(tmp_path, monkeypatch)
    monkeypatch.setattr("synapseclient.core.retry.doze", lambda _: None)
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    files = {
        "syn20": ("syn9", "val.zip", b"validation"),
        "syn11": ("syn1", "train.zip", BIG),
        "syn12": ("syn2", "a.csv", b"a\n"),
    }
    folders = {"syn1": ("syn9", "Data"), "syn2": ("syn1", "tables")}
    with Synapse(files, folders, token=CANARY) as running:
        (home / ".synapseConfig").write_text(running.config())
        monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", CANARY)
        yield running


def fetch_all(target: Path, *files: Any, host: SynapseHost = HOST, **changes: Any) -> list[str]:
    manifest = dataset(host, *files, **changes)
    listed = CLIENT.listing(manifest, host)
    for file in listed:
        CLIENT.fetch(manifest, host, file, target / file.path, TRANSFER)
    return [file.path for file in listed]


def test_files_and_folders_come_with_md5_and_size(site: Synapse, tmp_path: Path) -> None:
    listed = CLIENT.listing(dataset(HOST), HOST)
    assert [(file.path, file.bytes, file.md5) for file in listed] == [
        ("tables/a.csv", 2, md5(b"a\n")),
        ("train.zip", len(BIG), md5(BIG)),
        ("val.zip", 10, md5(b"validation")),
    ]
    fetch_all(tmp_path / "run")
    assert tree(tmp_path / "run") == ["tables/a.csv", "train.zip", "val.zip"]
    assert (tmp_path / "run/train.zip").read_bytes() == BIG
    assert tree(tmp_path / "home") == [".synapseConfig"]


def test_only_files_of_the_manifest_come(site: Synapse, tmp_path: Path) -> None:
    assert fetch_all(tmp_path / "run", source_file("val.zip", b"validation")) == ["val.zip"]
    with pytest.raises(MedhebError, match=r"lost\.zip.*a listing without it"):
        fetch_all(tmp_path / "run", source_file("lost.zip"))


def test_no_token_and_wrong_token_are_told_apart(
    site: Synapse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", "wrong_" + CANARY)
    with pytest.raises(BlockedError, match=r"does not know the token.*SYNAPSE_AUTH_TOKEN") as caught:
        fetch_all(tmp_path / "run")
    assert CANARY not in str(caught.value)
    monkeypatch.delenv("SYNAPSE_AUTH_TOKEN")
    with pytest.raises(BlockedError, match=r"wants a login and there is none.*SYNAPSE_AUTH_TOKEN"):
        fetch_all(tmp_path / "run")


def test_the_config_file_may_hold_the_token_if_it_is_private(
    site: Synapse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SYNAPSE_AUTH_TOKEN")
    config = tmp_path / "home/.synapseConfig"
    config.write_text(site.config() + f"[default]\nauthtoken={CANARY}\n")
    config.chmod(0o600)
    assert len(fetch_all(tmp_path / "run")) == 3
    config.chmod(0o640)
    with pytest.raises(BlockedError, match=r"may be read by others.*chmod 600"):
        fetch_all(tmp_path / "run")


def test_a_config_file_that_cannot_be_parsed(site: Synapse, tmp_path: Path) -> None:
    (tmp_path / "home/.synapseConfig").write_text(f"authtoken={CANARY}\n")
    with pytest.raises(BlockedError, match=r"\.synapseConfig: cannot be parsed") as caught:
        fetch_all(tmp_path / "run")
    assert CANARY not in str(caught.value)


def test_a_token_without_the_right_to_look(site: Synapse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = base64.urlsafe_b64encode(json.dumps({"access": {"scope": ["download"]}}).encode()).decode()
    monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", f"head.{body}.sign")
    with pytest.raises(BlockedError, match=r"lacks the scope view"):
        fetch_all(tmp_path / "run")


def test_a_page_in_place_of_the_api(site: Synapse, tmp_path: Path) -> None:
    with Server(lambda _: page_reply("<html>Log in to this network</html>")) as portal:
        (tmp_path / "home/.synapseConfig").write_text(f"[endpoints]\nrepoEndpoint={portal.url}/repo/v1\n")
        with pytest.raises(BlockedError, match=r"not JSON"):
            fetch_all(tmp_path / "run")


def test_conditions_that_are_not_met(site: Synapse, tmp_path: Path) -> None:
    site.unauthorized = True
    page = r"conditions for the use of syn12 are not met.*https://www.synapse.org/Synapse:syn12"
    with pytest.raises(BlockedError, match=page):
        fetch_all(tmp_path / "run")
    site.unauthorized, site.unmet = False, {"syn12"}
    with pytest.raises(BlockedError, match=page):
        CLIENT.listing(dataset(HOST), HOST)
    site.unmet, site.fail = set(), [403]
    with pytest.raises(BlockedError, match=r"conditions for the use of syn1 are not met"):
        CLIENT.listing(dataset(HOST), HOST)
    assert tree(tmp_path / "run") == []


def test_gone(site: Synapse, tmp_path: Path) -> None:
    file = CLIENT.listing(dataset(HOST), HOST)[2]
    del site.files["syn20"]
    gone = r"Synapse no longer has it \(HTTP 404\).*Synapse:syn20"
    with pytest.raises(BlockedError, match=gone):
        CLIENT.listing(dataset(HOST), HOST)
    with pytest.raises(BlockedError, match=gone):
        CLIENT.fetch(dataset(HOST), HOST, file, tmp_path / "run/val.zip", TRANSFER)


def test_passing_trouble_passes_and_lasting_trouble_blocks(site: Synapse, tmp_path: Path) -> None:
    site.fail = [429, 503]
    assert len(fetch_all(tmp_path / "run")) == 3
    site.fail = [503] * 9
    with pytest.raises(BlockedError, match=r"trouble of its own \(HTTP 503\)"):
        fetch_all(tmp_path / "run")
    site.fail = [429] * 9
    with pytest.raises(BlockedError, match=r"limits how much"):
        fetch_all(tmp_path / "run")


def test_site_down(site: Synapse, tmp_path: Path) -> None:
    config = tmp_path / "home/.synapseConfig"
    config.write_text("[endpoints]\nrepoEndpoint=http://localhost:9/repo/v1\n")
    with pytest.raises(BlockedError, match=r"Synapse cannot be reached"):
        fetch_all(tmp_path / "run")


def test_a_cut_transfer_goes_on_and_wrong_content_is_refused(site: Synapse, tmp_path: Path) -> None:
    host = SynapseHost(kind="synapse", entities=("syn11",))
    site.cut_once = 200_000
    fetch_all(tmp_path / "run", host=host)
    assert (tmp_path / "run/train.zip").read_bytes() == BIG
    assert site.store.requests[-1].headers["range"] == "bytes=200000-"
    site.served["syn11"] = BIG[:-1] + b"x"
    with pytest.raises(MedhebError, match=rf"md5 {md5(BIG)}"):
        fetch_all(tmp_path / "other", host=host)
    assert tree(tmp_path / "other") == []


def test_hidden_content_keeps_paths_out_of_refusals(site: Synapse, tmp_path: Path) -> None:
    site.served["syn11"] = BIG[:-1] + b"x"
    with pytest.raises(MedhebError) as caught:
        fetch_all(tmp_path / "run", show_content=False)
    assert "train" not in str(caught.value)


def test_a_token_goes_to_the_site_and_nowhere_else(
    site: Synapse, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    fetch_all(tmp_path / "run")
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in site.api.requests)
    assert len(site.store.requests) == 3
    assert not any("authorization" in request.headers for request in site.store.requests)
    printed = capfd.readouterr()
    assert_nowhere(CANARY, tmp_path, printed.out, printed.err, caplog.text)
    assert_nowhere(SIGNATURE, tmp_path, printed.out, printed.err)
