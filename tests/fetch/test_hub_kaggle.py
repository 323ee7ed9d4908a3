"""Kaggle clients against a loopback site, through the real ``kagglesdk``."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_samples import CANARY, TRANSFER, assert_nowhere, clean_home, dataset, source_file, tree
from servers.kaggle import SIGNATURE, Kaggle

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts.kaggle_competition import CLIENT as COMPETITION
from medheb.fetch.hosts.kaggle_dataset import CLIENT
from medheb.manifest.hosts import KaggleCompetitionHost, KaggleDatasetHost

environment = pytest.importorskip("kagglesdk.kaggle_env", reason="optional client kagglesdk is not installed")

FILES = {"labels.csv": b"id,label\n" * 100, "Test Set/a/1.png": bytes(range(256)) * 500, "b.csv": b"x\n"}
HOST = KaggleDatasetHost(kind="kaggle_dataset", name="owner/pictures", version=3)
CONTEST = KaggleCompetitionHost(kind="kaggle_competition", name="blindness")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kaggle]:
    clean_home(tmp_path, monkeypatch)
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "TEST")
    with Kaggle(dict(FILES)) as running:
        # The setting names one of the library's sites; its test site listens on a fixed port, which may be taken.
        monkeypatch.setitem(environment._env_to_endpoint, environment.KaggleEnv.TEST, running.api.url)
        yield running


def fetch_all(target: Path, host: Any, *files: Any) -> list[str]:
    client: Any = CLIENT if isinstance(host, KaggleDatasetHost) else COMPETITION
    manifest = dataset(host, *files)
    listed = client.listing(manifest, host)
    for file in listed:
        client.fetch(manifest, host, file, target / file.path, TRANSFER)
    return [file.path for file in listed]


def save_login(tmp_path: Path, mode: int = 0o600) -> Path:
    path = tmp_path / "home/.kaggle/kaggle.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"username": "me", "key": CANARY}))
    path.chmod(mode)
    return path


def log_in(site: Kaggle, monkeypatch: pytest.MonkeyPatch) -> None:
    site.logins.add(f"Bearer {CANARY}")
    monkeypatch.setenv("KAGGLE_API_TOKEN", CANARY)


def test_a_manifest_without_files_gets_the_whole_set(site: Kaggle, tmp_path: Path) -> None:
    assert fetch_all(tmp_path / "run", HOST) == ["pictures.zip"]
    with zipfile.ZipFile(tmp_path / "run/pictures.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
    assert tree(tmp_path / "run") == ["pictures.zip"]


def test_named_files_come_alone_packed_ones_unpacked(site: Kaggle, tmp_path: Path) -> None:
    site.packed.add("labels.csv")
    chosen = [source_file(name, FILES[name]) for name in ("labels.csv", "Test Set/a/1.png")]
    assert fetch_all(tmp_path / "run", HOST, *chosen) == ["Test Set/a/1.png", "labels.csv"]
    assert (tmp_path / "run/labels.csv").read_bytes() == FILES["labels.csv"]
    assert (tmp_path / "run/Test Set/a/1.png").read_bytes() == FILES["Test Set/a/1.png"]
    assert tree(tmp_path / "run") == ["Test Set/a/1.png", "labels.csv"]


def test_a_file_without_redirect_is_taken_as_it_comes(site: Kaggle, tmp_path: Path) -> None:
    site.direct = True
    fetch_all(tmp_path / "run", HOST, source_file("labels.csv", FILES["labels.csv"]))
    assert (tmp_path / "run/labels.csv").read_bytes() == FILES["labels.csv"]
    with pytest.raises(MedhebError, match="sha256"):
        fetch_all(tmp_path / "other", HOST, source_file("b.csv", b"y\n"))
    assert tree(tmp_path / "other") == []


def test_version_null_takes_the_current_one_and_asks_to_pin_it(site: Kaggle, caplog: pytest.LogCaptureFixture) -> None:
    host = HOST.model_copy(update={"version": None})
    assert CLIENT.listing(dataset(host), host)[0].address == "3:"
    assert "the current one is 3. Pin it with `medheb refresh sample_set`" in caplog.text


def test_kaggle_json_is_used_if_it_is_private(site: Kaggle, tmp_path: Path) -> None:
    site.public = False
    site.logins.add("Basic " + base64.b64encode(f"me:{CANARY}".encode()).decode())
    path = save_login(tmp_path)
    assert fetch_all(tmp_path / "run", HOST) == ["pictures.zip"]
    path.chmod(0o644)
    with pytest.raises(BlockedError, match=r"may be read by others.*chmod 600") as caught:
        fetch_all(tmp_path / "run", HOST)
    assert CANARY not in str(caught.value)


def test_kaggle_json_without_a_key(site: Kaggle, tmp_path: Path) -> None:
    save_login(tmp_path).write_text("{}")
    with pytest.raises(BlockedError, match="does not hold 'username' and 'key'"):
        fetch_all(tmp_path / "run", HOST)


def test_no_login_wrong_token_and_rules_are_told_apart(
    site: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BlockedError, match=r"wants a login and there is none.*competitions/blindness/rules"):
        fetch_all(tmp_path / "run", CONTEST)
    monkeypatch.setenv("KAGGLE_API_TOKEN", CANARY)
    with pytest.raises(BlockedError, match="does not know the token") as caught:
        fetch_all(tmp_path / "run", CONTEST)
    assert CANARY not in str(caught.value)
    log_in(site, monkeypatch)
    site.rules_accepted = False
    with pytest.raises(BlockedError, match=r"rules are not accepted.*kaggle.com/competitions/blindness/rules"):
        fetch_all(tmp_path / "run", CONTEST)
    site.rules_accepted = True
    assert fetch_all(tmp_path / "run", CONTEST) == ["blindness.zip"]
    assert fetch_all(tmp_path / "run", CONTEST, source_file("b.csv", FILES["b.csv"])) == ["b.csv"]


def test_a_private_set_without_login(site: Kaggle, tmp_path: Path) -> None:
    site.public = False
    with pytest.raises(BlockedError, match=r"wants a login and there is none \(403\).*kaggle.com/settings"):
        fetch_all(tmp_path / "run", HOST)


@pytest.mark.parametrize(
    "host",
    [
        KaggleDatasetHost(kind="kaggle_dataset", name="owner/lost", version=1),
        KaggleDatasetHost(kind="kaggle_dataset", name="owner/pictures", version=9),
        KaggleCompetitionHost(kind="kaggle_competition", name="lost"),
    ],
)
def test_gone(site: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Any) -> None:
    log_in(site, monkeypatch)
    with pytest.raises(BlockedError, match=r"Kaggle no longer has it \(HTTP 404\).*https://www.kaggle.com/"):
        fetch_all(tmp_path / "run", host)
    assert tree(tmp_path / "run") == []


def test_passing_trouble_passes_and_lasting_trouble_blocks(site: Kaggle, tmp_path: Path) -> None:
    site.fail = [429]
    fetch_all(tmp_path / "run", HOST)
    site.fail = [503] * 9
    with pytest.raises(BlockedError, match=r"trouble of its own \(HTTP 503\)"):
        fetch_all(tmp_path / "run", HOST)
    site.fail = [429] * 9
    with pytest.raises(BlockedError, match="limits how much"):
        fetch_all(tmp_path / "run", HOST)


def test_site_down(site: Kaggle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(environment._env_to_endpoint, environment.KaggleEnv.TEST, "http://localhost:9")
    with pytest.raises(BlockedError, match=r"Kaggle (cannot be reached|does not answer)"):
        fetch_all(tmp_path / "run", HOST)


def test_a_cut_transfer_goes_on_where_it_stopped(site: Kaggle, tmp_path: Path) -> None:
    name = "Test Set/a/1.png"
    manifest = dataset(HOST, source_file(name, FILES[name]))
    listed = CLIENT.listing(manifest, HOST)

    class CutLater(list[Any]):
        def append(self, request: Any) -> None:
            super().append(request)
            # The first GET is the library's own, whose body nobody reads.
            site.cut_once = 50_000 if len(self) == 2 else None

    site.store.requests = CutLater()
    CLIENT.fetch(manifest, HOST, listed[0], tmp_path / "run/1.png", TRANSFER)
    assert (tmp_path / "run/1.png").read_bytes() == FILES[name]
    assert site.store.requests[-1].headers["range"] == "bytes=50000-"


def test_digest_of_the_store_and_web_pages_are_noticed(site: Kaggle, tmp_path: Path) -> None:
    site.wrong_md5 = True
    with pytest.raises(MedhebError, match="md5"):
        fetch_all(tmp_path / "run", HOST)
    site.wrong_md5, site.page_instead = False, True
    with pytest.raises(BlockedError, match="web page"):
        fetch_all(tmp_path / "run", HOST)
    assert tree(tmp_path / "run") == []


def test_a_token_goes_to_the_site_and_nowhere_else(
    site: Kaggle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", logger="medheb")
    log_in(site, monkeypatch)
    fetch_all(tmp_path / "run", HOST)
    fetch_all(tmp_path / "run", CONTEST)
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in site.api.requests)
    assert site.store.requests
    assert not any("authorization" in request.headers for request in site.store.requests)
    printed = capfd.readouterr()
    assert_nowhere(CANARY, tmp_path, printed.out, printed.err, caplog.text)
    assert_nowhere(SIGNATURE, tmp_path, printed.out, printed.err, caplog.text)
