"""Statuses say what and what to do; logs say no secrets."""

import logging
from pathlib import Path

import pytest

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.log import ScrubbingFormatter, scrub
from medheb.core.status import OK, Status, first_trouble, read_status, status_of, write_status


def test_blocked_and_failed_become_statuses(tmp_path: Path) -> None:
    blocked = status_of(BlockedError("kvasir", "needs a token", "Set HF_TOKEN"), "fetch kvasir")
    failed = status_of(MedhebError("a.zip", "is cut off", "Delete it"), "fetch kvasir")
    assert (blocked.state, failed.state) == ("blocked", "failed")
    write_status(tmp_path / "status.json", blocked)
    assert read_status(tmp_path / "status.json") == blocked
    assert first_trouble([OK, failed, blocked]) is failed
    assert first_trouble([OK]).ok


@pytest.mark.parametrize(
    "text", ["{}", "[" * 100_000, '{"state": ' + "[" * 900 + "]" * 900 + "}", '{"state": "\\ud800"}']
)
def test_damaged_status_names_file_and_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "status.json"
    path.write_text(text)
    with pytest.raises(MedhebError, match=r"status\.json: is not a status file.*Delete it"):
        read_status(path)


def test_a_refusal_can_be_written_to_any_file(tmp_path: Path) -> None:
    error = MedhebError("b\udcff.json", "has version \ud800", "Delete b\udcff.json")
    (tmp_path / "log").write_text(str(error), encoding="utf-8")
    assert str(error) == r"b\udcff.json: has version \ud800. Delete b\udcff.json"


def test_secrets_are_blanked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "canary-8c1f")
    text = "token hf_abcdefghijkl, canary-8c1f, https://user:pass@host/x, Authorization: Bearer abc.def"
    for secret in ("hf_abcdefghijkl", "canary-8c1f", "user:pass", "abc.def"):
        assert secret not in scrub(text)
    assert "host/x" in scrub(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://s3cr3t-canary@host/x", "https://[secret]@host/x"),
        ("https://user:p:w@host/x", "https://[secret]@host/x"),
        ("https://host/a?X-Amz-Signature=s3cr3t&b=1", "https://host/a?X-Amz-Signature=[secret]&b=1"),
        ("https://host/a?b=1&sig=s3cr3t%2B", "https://host/a?b=1&sig=[secret]"),
        ("https://host/a?access_token=s3cr3t#x", "https://host/a?access_token=[secret]#x"),
        ("https://host/path@2?mail=a@b", "https://host/path@2?mail=a@b"),
        ("see https://host, or ask me@example.org", "see https://host, or ask me@example.org"),
    ],
)
def test_logins_and_signatures_in_addresses(text: str, shown: str) -> None:
    assert scrub(text) == shown


def test_tracebacks_are_scrubbed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary-8c1f")
    try:
        raise RuntimeError("failed with canary-8c1f")
    except RuntimeError as error:
        record = logging.LogRecord("medheb", logging.ERROR, "", 0, "no", (), (type(error), error, error.__traceback__))
    assert "canary-8c1f" not in ScrubbingFormatter().format(record)


def test_status_refuses_unknown_states() -> None:
    with pytest.raises(ValueError, match="state"):
        Status.model_validate({"state": "fine"})
