"""Hugging Face client against a loopback hub, through the real ``huggingface_hub``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_samples import CANARY, TRANSFER, assert_nowhere, clean_home, dataset, sha256, source_file, tree
from huggingface_hub import constants
from huggingface_hub.utils._runtime import is_xet_available
from servers.hub_base import Server, page_reply
from servers.huggingface import COMMIT, REPOSITORY, SIGNATURE, Hub

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts.huggingface import CLIENT
from medheb.fetch.remote import RemoteFile, client_for
from medheb.manifest.hosts import HuggingFaceHost

BIG = bytes(range(256)) * 4000
FILES = {"README.md": b"# words\n", "data/a.parquet": BIG, "data/b.csv": b"a,b\n1,2\n", "other/c.parquet": b"c"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    clean_home(tmp_path, monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no_token"))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    with Hub(dict(FILES), lfs={"data/a.parquet"}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.api.url)
        yield running


def host(**changes: Any) -> HuggingFaceHost:
    return HuggingFaceHost(
        **{"kind": "huggingface", "repository": REPOSITORY, "revision": COMMIT, "include": ("data/*",)} | changes
    )


def fetch_all(target: Path, chosen: HuggingFaceHost, *files: Any, **changes: Any) -> list[str]:
    manifest = dataset(chosen, *files, **changes)
    listed = CLIENT.listing(manifest, chosen)
    for file in listed:
        CLIENT.fetch(manifest, chosen, file, target / file.path, TRANSFER)
    return [file.path for file in listed]


def test_only_included_files_of_the_pinned_commit_come(hub: Hub, tmp_path: Path) -> None:
    assert fetch_all(tmp_path / "run", host()) == ["data/a.parquet", "data/b.csv"]
    assert (tmp_path / "run/data/a.parquet").read_bytes() == BIG
    assert (tmp_path / "run/data/b.csv").read_bytes() == FILES["data/b.csv"]
    assert tree(tmp_path / "run") == ["data/a.parquet", "data/b.csv"]
    assert len([request for request in hub.cdn.requests if request.method == "GET"]) == 1


def test_listing_knows_sizes_and_lfs_digests(hub: Hub) -> None:
    listed = client_for("huggingface").listing(dataset(host()), host())
    assert [(file.path, file.bytes, file.sha256) for file in listed] == [
        ("data/a.parquet", len(BIG), sha256(BIG)),
        ("data/b.csv", 8, None),
    ]


def test_revision_null_resolves_main_once_and_asks_to_pin_it(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    listed = CLIENT.listing(dataset(host(revision=None)), host(revision=None))
    assert {file.address.split(":")[0] for file in listed} == {COMMIT}
    assert "Pin it with `medheb refresh sample_set`" in caplog.text


def test_a_file_is_as_readable_as_the_umask_says(hub: Hub, tmp_path: Path) -> None:
    fetch_all(tmp_path / "run", host())
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "run/data/b.csv").stat().st_mode == plain.stat().st_mode


def test_names_are_built_instead_of_listed(hub: Hub, tmp_path: Path) -> None:
    hub.files |= {
        "meta/valid.csv": b"VolumeName,X\nvalid_1_a_1.nii.gz,0\nvalid_1_a_2.nii.gz,0\nvalid_2_b_1.nii.gz,0\n",
        "v/valid_1/valid_1_a/valid_1_a_1.nii.gz": b"one",
        "v/valid_1/valid_1_a/valid_1_a_2.nii.gz": b"two",
    }
    hub.lfs.add("v/valid_1/valid_1_a/valid_1_a_1.nii.gz")
    rules = ("v/{VolumeName:2}/{VolumeName:3}/{VolumeName} <- meta/valid.csv", "meta/{valid,train}.csv")
    chosen = host(names=rules, include=("v/*_1.nii.gz", "meta/*"))
    assert fetch_all(tmp_path / "run", chosen) == ["meta/valid.csv", "v/valid_1/valid_1_a/valid_1_a_1.nii.gz"]
    assert (tmp_path / "run/v/valid_1/valid_1_a/valid_1_a_1.nii.gz").read_bytes() == b"one"
    assert not any("/tree/" in request.path for request in hub.api.requests)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("a{9..1}.csv", "range 9..1"),
        ("a{x}.csv", "neither a range nor a choice"),
        ("a{Nope} <- data/b.csv", "column 'Nope'"),
    ],
)
def test_a_bad_name_rule_is_told(hub: Hub, rule: str, fault: str) -> None:
    with pytest.raises(MedhebError, match=fault):
        CLIENT.listing(dataset(host(names=(rule,))), host(names=(rule,)))


def gate(hub: Hub, tmp_path: Path) -> BlockedError:
    """The refusal of a gated repository: the same before and after its listing."""
    file = RemoteFile("data/a.parquet", f"{COMMIT}:data/a.parquet")
    hub.gated = True
    with pytest.raises(BlockedError) as early:
        CLIENT.listing(dataset(host()), host())
    with pytest.raises(BlockedError) as late:
        CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a", TRANSFER)
    assert tree(tmp_path / "run") == []
    assert str(early.value) == str(late.value)
    return late.value


def test_gated_without_a_token(hub: Hub, tmp_path: Path) -> None:
    error = gate(hub, tmp_path)
    assert "gated and there is no token" in error.fault
    assert "https://huggingface.co/datasets/group/set" in error.remedy
    assert "HF_TOKEN" in error.remedy


def test_gated_with_a_wrong_token(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", CANARY)
    error = gate(hub, tmp_path)
    assert "does not know the token" in error.fault
    assert CANARY not in str(error)


@pytest.mark.parametrize(
    ("denial", "fault"),
    [
        ("Access to dataset group/set is restricted and you are not in the authorized list.", "terms are not accepted"),
        ("Your request to access dataset group/set is awaiting a review from the repo authors.", "not answered yet"),
        ("Please enable access to public gated repositories in your fine-grained token", "may not read gated"),
    ],
)
def test_gated_with_a_token_that_is_not_enough(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denial: str, fault: str
) -> None:
    hub.token, hub.accepted, hub.denial = CANARY, False, denial
    monkeypatch.setenv("HF_TOKEN", CANARY)
    error = gate(hub, tmp_path)
    assert fault in error.fault
    assert "https://huggingface.co/" in error.remedy


def test_a_token_goes_to_the_hub_and_nowhere_else(
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub.gated, hub.token, hub.cut_once = True, CANARY, 1000
    monkeypatch.setenv("HF_TOKEN", CANARY)
    fetch_all(tmp_path / "run", host())
    assert all(request.headers["authorization"] == f"Bearer {CANARY}" for request in hub.api.requests)
    assert hub.cdn.requests
    assert not any("authorization" in request.headers for request in hub.cdn.requests)
    printed = capfd.readouterr()
    assert_nowhere(CANARY, tmp_path, printed.out, printed.err, caplog.text)
    assert_nowhere(SIGNATURE, tmp_path, printed.out, printed.err, caplog.text)


def test_a_cut_transfer_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.cut_once = 15_000_000
    big = bytes(range(256)) * 100_000
    hub.files["data/a.parquet"] = big
    fetch_all(tmp_path / "run", host())
    assert (tmp_path / "run/data/a.parquet").read_bytes() == big
    assert hub.cdn.requests[-1].headers["range"].startswith("bytes=")


def test_rate_limit_and_server_trouble_pass(hub: Hub, tmp_path: Path) -> None:
    manifest = dataset(host())
    file = CLIENT.listing(manifest, host())[0]
    hub.fail = [429, 503]
    assert CLIENT.listing(manifest, host())[0] == file
    hub.fail = [429, 503, 503]
    CLIENT.fetch(manifest, host(), file, tmp_path / "a", TRANSFER)
    assert (tmp_path / "a").read_bytes() == BIG


@pytest.mark.parametrize(("status", "fault"), [(429, "limits how much"), (503, "trouble of its own \\(HTTP 503\\)")])
def test_lasting_trouble_blocks(hub: Hub, tmp_path: Path, status: int, fault: str) -> None:
    manifest = dataset(host())
    file = CLIENT.listing(manifest, host())[0]
    hub.fail = [status] * 50
    with pytest.raises(BlockedError, match=fault):
        CLIENT.fetch(manifest, host(), file, tmp_path / "run/a", TRANSFER)
    with pytest.raises(BlockedError, match=fault):
        CLIENT.listing(manifest, host())
    assert tree(tmp_path / "run") == []


def test_gone_and_disabled_and_down(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = host(revision="c" * 40)
    with pytest.raises(BlockedError, match=r"revision c+ is no longer in its repository.*medheb refresh sample_set"):
        CLIENT.listing(dataset(lost), lost)
    other = host(repository="group/nothing")
    with pytest.raises(BlockedError, match="private or gone, and there is no token"):
        CLIENT.listing(dataset(other), other)
    file = CLIENT.listing(dataset(host()), host())[0]
    del hub.files["data/a.parquet"]
    with pytest.raises(BlockedError, match="a file is no longer in its repository"):
        CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a", TRANSFER)
    hub.disabled = True
    with pytest.raises(BlockedError, match="disabled its repository"):
        CLIENT.listing(dataset(host()), host())
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    with pytest.raises(BlockedError, match="cannot be reached"):
        CLIENT.listing(dataset(host()), host())
    with pytest.raises(BlockedError, match="cannot be reached"):
        CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a", TRANSFER)


def test_other_bytes_than_promised_are_not_kept(hub: Hub, tmp_path: Path) -> None:
    hub.served["data/a.parquet"] = b"x" + BIG[1:]
    with pytest.raises(MedhebError, match=sha256(BIG)):
        fetch_all(tmp_path / "run", host())
    assert tree(tmp_path / "run") == []


def test_pins_of_the_manifest_count(hub: Hub, tmp_path: Path) -> None:
    assert fetch_all(tmp_path / "run", host(), source_file("data/b.csv", FILES["data/b.csv"])) == ["data/b.csv"]
    with pytest.raises(MedhebError, match=r"data/z.csv.*a listing without it"):
        CLIENT.listing(dataset(host(), source_file("data/z.csv")), host())
    replaced = source_file("data/b.csv", b"12345678")
    with pytest.raises(MedhebError, match=f"sha256 {sha256(b'12345678')}"):
        fetch_all(tmp_path / "again", host(), replaced)
    fetch_all(tmp_path / "again", host(), source_file("data/b.csv", b"12", accepted=FILES["data/b.csv"]))
    assert tree(tmp_path / "again") == ["data/b.csv"]


def test_hidden_content_keeps_paths_out_of_refusals(hub: Hub, tmp_path: Path) -> None:
    hub.served["data/a.parquet"] = b"x" + BIG[1:]
    with pytest.raises(MedhebError) as caught:
        fetch_all(tmp_path / "run", host(), show_content=False)
    assert "parquet" not in str(caught.value)


def test_a_file_above_the_limit_of_plain_https(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MAX_HTTP_DOWNLOAD_SIZE", 10)
    with pytest.raises(BlockedError, match=r"above 50 GB.*HF_HUB_DISABLE_XET=0"):
        fetch_all(tmp_path / "run", host())
    assert tree(tmp_path / "run") == []


def test_a_page_in_place_of_the_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean_home(tmp_path, monkeypatch)
    file = RemoteFile("data/a.parquet", f"{COMMIT}:data/a.parquet")
    with Server(lambda _: page_reply("<html>Log in to this network</html>")) as portal:
        monkeypatch.setenv("HF_ENDPOINT", portal.url)
        with pytest.raises(BlockedError, match=r"not JSON"):
            CLIENT.listing(dataset(host()), host())
        with pytest.raises(BlockedError, match=r"does not come from the Hugging Face hub"):
            CLIENT.fetch(dataset(host()), host(), file, tmp_path / "run/a", TRANSFER)


def test_a_table_that_is_none(hub: Hub) -> None:
    hub.files["data/b.csv"] = b"VolumeName\n\xff\xfe"
    rules = ("{VolumeName} <- data/b.csv",)
    with pytest.raises(MedhebError, match=r"not CSV in UTF-8"):
        CLIENT.listing(dataset(host(names=rules)), host(names=rules))


def test_no_telemetry(hub: Hub) -> None:
    CLIENT.listing(dataset(host()), host())
    assert constants.HF_HUB_DISABLE_TELEMETRY
    assert not is_xet_available()
