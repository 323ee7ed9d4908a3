"""Expected roots: of the demo, of every recipe over inputs that the tests make, and how maintainers update them."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_bench import OK, PICTURES, Bench, encode, pixels, write_roots
from golden_inputs import PATH, found

from medheb.audit.commands import expect_command
from medheb.audit.expected import Expected, Item, changes, expected_path, items_of, read_expected, update
from medheb.audit.folder import read_folder
from medheb.audit.provenance import write_provenance
from medheb.audit.record import record_digests
from medheb.build.registry import RECIPES
from medheb.core.errors import MedhebError
from medheb.manifest.load import load_config, load_datasets, load_run
from medheb.workflow import Plan

ROOT = Path(__file__).parents[2]
UPDATE = "Run `make demo`, then `medheb --config config/config.yaml --config config/demo.yaml audit expect --update`"


def test_every_recipe_makes_what_is_expected(tmp_path: Path) -> None:
    """On a change: ``python tests/audit/golden_inputs.py --update``."""
    listed = changes(read_expected(PATH).items, found(tmp_path), {})
    assert not listed, "\n".join(f"{change.name} {change.what}. {change.why}" for change in listed)


def test_every_source_has_expected_roots_under_each_protocol_that_it_follows() -> None:
    """All 54 sources: none is left out."""
    sources = load_datasets(ROOT / "manifests" / "datasets")
    wanted = {
        f"{name} {protocol}"
        for name, source in sources.items()
        for protocol in ("release", "corrected")
        if protocol == "corrected" or RECIPES[source.recipe.name].follows_protocol
    }
    assert len(sources) == 54
    assert read_expected(PATH).items.keys() == wanted


def test_the_demo_has_expectations_of_its_present_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    files = [Path("config/config.yaml"), Path("config/demo.yaml")]
    run = load_run(load_config(files))
    plan = Plan(files, {})
    expected = read_expected(expected_path("demo")).items
    assert expected.keys() == {f"source/{name}" for name in run.datasets} | {f"index/{key}" for key in run.tasks}
    for name, manifest in run.datasets.items():
        item = expected[f"source/{name}"]
        assert item.made == f"{manifest.recipe.name} {manifest.recipe.version}", UPDATE
        assert item.settings == plan.build_settings(name), UPDATE
    for key, task in run.tasks.items():
        assert expected[f"index/{key}"].settings == plan.index_settings(task.index), UPDATE


class Told:
    """What the workflow would say."""

    def __init__(self, settings: str = "s") -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> object:
        return lambda *names: self._settings if name == "build_settings" else name


def items(bench: Bench, settings: str = "s") -> tuple[dict[str, Item], dict[str, str]]:
    for source in bench.run.datasets:
        record_digests(bench.run, source)
    write_provenance(bench.run, write_roots(bench.run), Told(settings))
    return items_of(read_folder(bench.layout.audit))


def test_only_what_every_machine_gets(whole: Bench) -> None:
    first, absent = items(whole)
    assert first.keys() == {
        f"{kind}/{name}"
        for kind, name in [("source", one) for one in ("alpha", "gamma", "delta")]
        + [("index", f"{one}_i2i") for one in ("alpha", "gamma", "delta")]
    }
    assert absent == {}
    for name in ("alpha", "gamma", "delta"):
        whole.build(name, level=1)
        whole.evaluate(name)
    assert items(whole)[0] == first, "another encoder"


def repaint(bench: Bench) -> None:
    """Another pixel, as after a changed recipe."""
    bench.image("a.png").write_bytes(encode(pixels(7)))
    bench.inventory("alpha", (*PICTURES["alpha"], "notes.json"), OK)
    bench.evaluate("alpha")


def test_update_says_what_changed_and_why_it_may(whole: Bench, tmp_path: Path) -> None:
    path = tmp_path / "expected.json"
    assert {change.what for change in update(path, *items(whole))} == {"is new"}
    assert update(path, *items(whole)) == []
    before = read_expected(path)
    manifest = whole.run.datasets["alpha"]
    recipe = manifest.recipe.model_copy(update={"version": 3})
    whole.run.datasets["alpha"] = manifest.model_copy(update={"recipe": recipe})
    repaint(whole)
    listed = update(path, *items(whole))
    assert [(change.name, change.verdict) for change in listed] == [
        ("index/alpha_i2i", "EQUIVALENT"),
        ("source/alpha", "MISMATCH"),
    ]
    assert "may change, since these did: the recipe or its version, pictures 2 -> pictures 3" in listed[1].why
    assert "what it is made from" in listed[0].why
    assert read_expected(path) != before
    (change,) = changes(read_expected(path).items, items(whole, "t")[0], {})[-1:]
    assert "its settings" in change.why


def test_unexplained_change_needs_a_reason(whole: Bench, tmp_path: Path) -> None:
    path = tmp_path / "expected.json"
    update(path, *items(whole))
    repaint(whole)
    with pytest.raises(MedhebError, match=r"without an explanation: source/alpha. Find the cause or raise the recipe"):
        update(path, *items(whole))
    (_, change) = update(path, *items(whole), reason="the old picture was wrong")
    assert "find the cause" in change.why
    assert read_expected(path).reason == "the old picture was wrong"


def test_sources_that_were_not_built_are_told_and_never_expected(recorded: Bench, tmp_path: Path) -> None:
    found_here, absent = items(recorded)
    assert absent == {"source/beta": "index: no network", "index/beta_i2i": "index: no network"}
    assert {change.verdict for change in changes(found_here, found_here, absent)} == {"NOT-BUILT"}
    with pytest.raises(MedhebError, match="source/beta: was not built"):
        update(tmp_path / "expected.json", found_here, absent)


def test_command(
    whole: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    items(whole)
    with pytest.raises(MedhebError, match=r"demo.json: is missing.*audit expect --update"):
        expect_command(whole.run)
    assert expect_command(whole.run, write=True) == 0
    assert "source/alpha is new" in capsys.readouterr().out
    assert expect_command(whole.run) == 0
    assert "6 of 6 roots as expected" in capsys.readouterr().out
    repaint(whole)
    items(whole)
    assert expect_command(whole.run) == 10
    assert "find the cause" in capsys.readouterr().out
    assert isinstance(read_expected(expected_path("demo")), Expected)
