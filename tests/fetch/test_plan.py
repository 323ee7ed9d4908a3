"""`medheb plan`: what is here, what is in the way, what it will cost; all without asking anybody."""

import io
import json
from pathlib import Path

import pytest
from plan_samples import HOSTS, closed, dataset, file, make_run, mark_fetched
from rich.console import Console

from medheb.core.errors import MedhebError
from medheb.fetch import needs, plan
from medheb.fetch.lock import Lock
from medheb.fetch.plan import Plan, SourcePlan, make_plan, require_room
from medheb.fetch.plan_table import hours_text, print_plan, size_text
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.schema import drifted

ROOT = Path(__file__).resolve().parents[2]

DIGEST = "ab" * 32


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No tokens, no optional clients."""
    for token in needs.TOKENS.values():
        for group in token.variables:
            for name in group:
                monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    monkeypatch.setattr(needs, "get_token", lambda: None)
    monkeypatch.setattr(needs, "secret", lambda variable, host: None)


def printed(made: Plan) -> str:
    stream = io.StringIO()
    print_plan(made, Console(file=stream, width=220))
    return stream.getvalue()


def only(run: Run) -> SourcePlan:
    (source,) = make_plan(run).sources
    return source


def test_ready_source_with_bytes_hours_and_files(tmp_path: Path) -> None:
    source = only(
        make_run(
            tmp_path, dataset("a", files=[file("a.zip", 45_000_000_000)]), accept="open",
            transfer={"bandwidth_mbit": 50},
        )
    )  # fmt: skip
    assert (source.state, source.here, source.reason, source.remedy) == ("ready", "nothing", "", "")
    assert source.download_bytes == source.remaining_bytes == 45_000_000_000
    assert source.hours == pytest.approx(45e9 * 8 / 50e6 / 3600)
    assert (source.disk_bytes, source.inodes) == (3000, 10)


def test_present_sources_cost_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "x").write_text("x")
    run = make_run(tmp_path, dataset("a"), dataset("b"), accept="open", local_copies={"b": str(copy)})
    mark_fetched(run, "a")
    made = make_plan(run)
    assert [(source.state, source.here) for source in made.sources] == [
        ("present", "complete"),
        ("present", "local copy"),
    ]
    assert made.present == 2
    assert made.ready.remaining_bytes == made.ready.disk_bytes == 0


def test_files_that_are_here_are_not_counted_again(tmp_path: Path) -> None:
    run = make_run(
        tmp_path, dataset("a", files=[file("a.zip", 5, DIGEST), file("b.zip", 100)]), accept="open"
    )  # fmt: skip
    archive = run.layout.archive(DIGEST, "a.zip")
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"12345")
    assert (only(run).here, only(run).remaining_bytes, only(run).download_bytes) == ("some files", 100, 105)
    archive.write_bytes(b"cut")
    assert (only(run).here, only(run).remaining_bytes) == ("nothing", 105)
    own = run.layout.sources / "a" / "archives" / "b.zip"
    own.parent.mkdir(parents=True)
    own.write_bytes(bytes(100))
    assert (only(run).here, only(run).remaining_bytes) == ("some files", 5)
    inner = make_run(tmp_path, dataset("i", files=[file("in/a.zip", 5, DIGEST), file("in/b.zip", 7)]), accept="open")
    for place, size in (
        (inner.layout.archive(DIGEST, "in/a.zip"), 5),
        (inner.layout.sources / "i/archives/in/b.zip", 7),
    ):
        place.parent.mkdir(parents=True)
        place.write_bytes(bytes(size))
        assert only(inner).remaining_bytes == (7 if size == 5 else 0)


def test_shared_archives_count_once_in_the_sum(tmp_path: Path) -> None:
    shared = [file("a.zip", 700, DIGEST)]
    made = make_plan(make_run(tmp_path, dataset("a", files=shared), dataset("b", files=shared), accept="open"))
    assert [source.remaining_bytes for source in made.sources] == [700, 700]
    assert made.ready.remaining_bytes == 700
    assert made.ready.disk_bytes == 6000
    assert made.ready.disk_at_least == 6000, "files that are not unpacked are part of what is built"


def test_a_kept_download_is_the_least_that_a_disk_holds(tmp_path: Path) -> None:
    zipped = {"files": [file(size=700)], "disk_bytes": None}
    whole = {"include": ["*"], "max_bytes": 10**6}
    run = make_run(
        tmp_path,
        dataset("a", unpack=whole, **zipped),
        dataset("b", unpack={**whole, "remote": True}, **zipped),
        dataset("c", unpack=whole, files=[file(size=700)], disk_bytes=50),
        dataset("d", **zipped),
        closed("e", download_bytes=700, disk_bytes=None),
        accept="open",
    )
    made = make_plan(run)
    assert [source.disk_at_least for source in made.sources] == [700, 0, 750, 700, 0]
    assert made.ready.disk_at_least == 2150
    text = printed(made)
    assert "> 700 B" in text
    assert "ready: 4 sources, 2.8 kB to load, at least 2.1 kB on disk" in text


def test_unknown_sizes_stay_unknown_and_are_counted(tmp_path: Path) -> None:
    run = make_run(
        tmp_path,
        dataset("a", files=[file(size=None)], disk_bytes=None, inodes=None),
        dataset("b", files=[file(size=None)], download_bytes=500),
        dataset("c", "zenodo", files=[], files_note="listed by the host"),
        accept="open",
    )
    made = make_plan(run)
    assert [source.remaining_bytes for source in made.sources] == [None, 500, None]
    assert [source.hours is None for source in made.sources] == [True, False, True]
    assert (made.ready.remaining_bytes, made.ready.remaining_unknown) == (500, 2)
    assert (made.ready.disk_unknown, made.ready.inodes_unknown) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "changes", "reason", "remedy"),
    [
        ("physionet", {}, "needs your own copy", "local_copies: {a: <folder>}"),
        ("portal", {}, "Redivis hands out its files in person only", "https://example.org/portal"),
        ("academic_torrents", {}, "never fetched", "local_copies"),
        ("https", {"files": [], "files_note": "nobody has seen them"}, "nobody has listed", "https://example.org/a"),
        ("kaggle_dataset", {}, "needs the optional client kagglesdk", "pip install -r envs/hubs.txt"),
        ("huggingface", {"access": "gated"}, "no Hugging Face token was found", "and set HF_TOKEN"),
    ],
)
def test_blocked_sources_say_why_and_what_to_do(
    tmp_path: Path, kind: str, changes: dict, reason: str, remedy: str
) -> None:
    run = make_run(tmp_path, dataset("a", kind, **changes), accept="open")
    source = only(run)
    assert source.state == "blocked"
    assert reason in source.reason
    assert remedy in source.remedy


def test_all_obstacles_are_told_in_the_order_to_mend_them(tmp_path: Path) -> None:
    source = only(make_run(tmp_path, closed("a")))
    assert source.reason.startswith("its terms have not been accepted; needs your own copy")
    assert source.remedy.startswith("Read them with `medheb accept a`. Get it from PhysioNet")


def test_token_and_client_open_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, dataset("a", "synapse"), accept="open")
    assert "optional client synapseclient" in only(run).reason
    monkeypatch.setattr(needs, "find_spec", lambda name: object())
    assert only(run).reason == "no Synapse token was found"
    monkeypatch.setenv("SYNAPSE_AUTH_TOKEN", "canary-token-1")
    assert only(run).state == "ready"
    assert "canary-token-1" not in make_plan(run).model_dump_json()


def test_open_sources_of_the_hub_need_no_token(tmp_path: Path) -> None:
    assert only(make_run(tmp_path, dataset("a", "huggingface"), accept="open")).state == "ready"
    assert not needs.needs_token(dataset("a", "huggingface", access="registration"), "huggingface")


def test_mirror_is_used_where_the_first_host_is_closed(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a", "kaggle_dataset", mirrors=[HOSTS["zenodo"]]), accept="open")
    assert (only(run).state, only(run).host) == ("ready", "zenodo")


@pytest.mark.parametrize(("make", "reason"), [("nothing", "does not exist"), ("empty", "is empty")])
def test_wrong_local_copy_blocks(tmp_path: Path, make: str, reason: str) -> None:
    copy = tmp_path / "copy"
    if make == "empty":
        copy.mkdir()
    source = only(make_run(tmp_path, dataset("a"), accept="open", local_copies={"a": str(copy)}))
    assert source.state == "blocked"
    assert reason in source.reason
    assert str(copy) not in source.reason + source.remedy


def test_what_is_only_verified_is_an_own_copy_and_no_download(tmp_path: Path) -> None:
    """Its size is told, but no hours and no bytes of the totals are its."""
    size = 570_000_000_000
    torrent = {"mirrors": [HOSTS["academic_torrents"]]}
    run = make_run(
        tmp_path,
        dataset("a"),
        closed("b", download_bytes=size, **torrent),
        closed("c"),
        closed("d", "portal", download_bytes=500),
        closed("e", mirrors=[HOSTS["zenodo"]], download_bytes=70),
        accept="open",
    )
    made = make_plan(run)
    assert [source.own_copy for source in made.sources] == [False, True, True, False, False]
    assert [source.download_bytes for source in made.sources] == [1000, size, None, 500, 70]
    assert [source.remaining_bytes for source in made.sources] == [1000, 0, 0, 500, 70]
    assert made.sources[1].hours == 0
    assert (made.blocked.sources, made.blocked.remaining_bytes, made.blocked.remaining_unknown) == (4, 570, 0)
    assert made.own_copies.model_dump() == {"sources": 2, "bytes": size, "unknown": 1}
    text = printed(made)
    assert "own: 2 sources, 570.0 GB (+ 1 of unknown size) of your own copies, verified and never downloaded" in text
    (row,) = (line for line in text.splitlines() if " b " in line)
    assert [cell.strip() for cell in row.split("│")[4:8]] == ["own copy", "3.0 kB", "10", ""]


def test_a_named_copy_is_never_downloaded_even_if_it_is_not_there(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), accept="open", local_copies={"a": str(tmp_path / "gone")})
    source = only(run)
    assert (source.state, source.own_copy, source.remaining_bytes) == ("blocked", True, 0)
    assert make_plan(run).blocked.remaining_bytes == 0


def test_a_source_waits_for_the_one_whose_files_it_uses(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    user = dataset("user", requires=["lender"])
    plain = {"access": "open", "redistribution": True, "show_content": True}

    def state(*others: Dataset, **settings: object) -> tuple[str, str, str]:
        made = make_plan(make_run(tmp_path, user, *others, accept="open", **settings))
        return made.sources[0].state, made.sources[0].reason, made.sources[0].remedy

    assert state() == (
        "blocked", "needs the files of lender, which this run leaves out",
        "Add lender to 'datasets', and one of its tasks to 'tasks' unless that is 'all'",
    )  # fmt: skip
    assert state(closed("lender", **plain)) == (
        "blocked", "needs the files of lender (needs your own copy, which is verified and never fetched)",
        "First mend lender, see there",
    )  # fmt: skip
    assert "(its terms have not been accepted; needs your own copy" in state(closed("lender"))[1]
    copies = {"lender": str(copy)}
    assert state(closed("lender", **plain), local_copies=copies)[1] == (
        "needs the files of lender (its local copy does not exist)"
    )
    copy.mkdir()
    (copy / "x").write_text("x")
    assert state(closed("lender", **plain), local_copies=copies) == ("ready", "", "")
    assert state(dataset("lender")) == ("ready", "", ""), "it is downloaded in the same run"
    made = make_plan(make_run(tmp_path, user, closed("lender"), accept="open"))
    assert (made.ready.sources, made.blocked.sources, made.blocked.remaining_bytes) == (0, 2, 1000)


def test_two_projects_are_asked_for_in_one_folder(tmp_path: Path) -> None:
    source = only(make_run(tmp_path, closed("a", also=[{**HOSTS["physionet"], "slug": "other-set"}])))
    assert "Get some-set and other-set from PhysioNet" in source.remedy
    assert source.remedy.endswith("then set 'local_copies: {a: <folder that holds both>}'")


def test_short_disk_is_refused_and_names_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(
        tmp_path, dataset("a"), dataset("b", access="gated"), dataset("c", unpack={"include": ["*"]}), accept="open"
    )  # fmt: skip
    # a needs 3000 (its files are part of that), b is blocked, c needs 1000 + 3000.
    monkeypatch.setattr(plan, "free_space", lambda folder: (7000, 100))
    require_room(make_plan(run))
    monkeypatch.setattr(plan, "free_space", lambda folder: (6999, 100))
    with pytest.raises(MedhebError) as refused:
        require_room(make_plan(run))
    assert refused.value.where == "source c"
    assert "does not fit into" in refused.value.fault
    assert "paths" in refused.value.remedy
    pieces = dataset("d", unpack={"include": ["*"], "remote": True})
    monkeypatch.setattr(plan, "free_space", lambda folder: (3000, 100))
    require_room(make_plan(make_run(tmp_path, pieces, accept="open")))
    monkeypatch.setattr(plan, "free_space", lambda folder: (10**9, 19))
    short = make_plan(run).shortage
    assert short is not None
    assert (short.source, short.what, short.needed, short.free) == ("c", "files", 20, 19)


def test_published_schemas_are_those_of_the_models() -> None:
    assert drifted(ROOT, {"plan": Plan, "lock": Lock}) == []


def test_json_reads_back_and_obeys_its_schema(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), closed("b"), dataset("c", files=[file(size=None)]), accept="open")
    made = make_plan(run)
    text = made.model_dump_json(indent=1)
    assert Plan.model_validate_json(text) == made
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with snakemake")
    published = json.loads((ROOT / "workflow" / "schemas" / "plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(text), published)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(text), "more": 1}, published)
    with pytest.raises(ValueError, match="Extra inputs"):
        Plan.model_validate({**json.loads(text), "more": 1})


def test_table_names_every_source_with_state_and_remedy(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), closed("b"), accept="open")
    text = printed(make_plan(run))
    for part in (
        "2 sources of set",
        "ready",
        "blocked",
        "credentialed",
        "medheb accept b",
        "1.0 kB",
        "own copy",
        "blocked: 1 source, 0 B to load, 3.0 kB on disk",
        "own: 1 source, 0 B (+ 1 of unknown size) of your own copies",
    ):
        assert part in text


def test_numbers_as_people_read_them() -> None:
    assert [size_text(size) for size in (None, 0, 999, 1_500, 2_340_000, 7_100_000_000, 1.2e12)] == [
        "?", "0 B", "999 B", "1.5 kB", "2.3 MB", "7.1 GB", "1.2 TB",
    ]  # fmt: skip
    assert [hours_text(hours) for hours in (None, 0.0, 0.01, 0.1, 12.34)] == ["?", "0.0", "<0.1", "0.1", "12.3"]
