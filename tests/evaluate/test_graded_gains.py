"""Gains: the written rules, and what the manifest of the benchmark says with them."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from medheb.core.errors import MedhebError
from medheb.evaluate.graded_gains import counted_queries, gain_rule, jaccard
from medheb.manifest.graded import AnyRelation, Graded, Groups, Overlap, Steps, load_graded, plain
from medheb.manifest.load import load_datasets, load_tasks

ROOT = Path(__file__).resolve().parents[2]
SETS = [ROOT / "manifests", ROOT / "manifests" / "demo"]


def gain(relation: Steps | Groups | Overlap, query: str, candidate: str) -> float:
    return gain_rule(relation)(frozenset({plain(query)}), frozenset({plain(candidate)}))


def loaded(folder: Path) -> Graded:
    graded = load_graded(folder, load_tasks(folder / "tasks.tsv"))
    assert graded is not None
    return graded


def test_steps_fall_with_distance() -> None:
    steps = Steps(kind="steps", note="...", classes=("none", "mild", "severe", "dead"), gains=(0.5, 0.2))
    assert [gain(steps, "none", other) for other in steps.classes] == [1.0, 0.5, 0.2, 0.0]
    assert gain(steps, "severe", "mild") == 0.5, "either way"


def test_the_largest_group_that_holds_both_counts() -> None:
    groups = Groups.model_validate(
        {"kind": "groups", "note": "...", "classes": ["a", "b", "c", "d"], "queries": ["a"]}
        | {"groups": [{"gain": 0.25, "classes": ["a", "b", "c"]}, {"gain": 0.5, "classes": ["a", "b"]}]}
    )
    assert [gain(groups, "a", other) for other in "abcd"] == [1.0, 0.5, 0.25, 0.0]
    assert counted_queries(groups) == {"a"}


def test_jaccard() -> None:
    assert jaccard({"edema", "fracture"}, {"edema", "pneumonia"}) == pytest.approx(1 / 3)
    assert jaccard({"edema"}, {"edema"}) == 1.0
    assert jaccard(set(), set()) == 0.0


def test_spelling_of_case_and_signs_does_not_count() -> None:
    assert plain("Collecting Duct, Connecting Tubule") == plain("collecting duct,connecting tubule")
    assert plain("kidney-left") != plain("kidney-right")


@pytest.mark.parametrize("folder", SETS, ids=["benchmark", "demo"])
def test_every_relation_lists_exactly_the_classes_of_its_sources(folder: Path) -> None:
    """A class that the recipe writes and the relation forgets would be refused only after days of work."""
    graded, tasks, datasets = loaded(folder), load_tasks(folder / "tasks.tsv"), load_datasets(folder / "datasets")
    compared = 0
    for entry in graded.entries:
        relation = graded.relations[entry.relation]
        for source in (tasks[entry.task] if entry.task else entry.row).sources:
            labels = datasets[source].recipe.options.get("labels")
            if source == "cirrmri600":
                labels = [*labels["texts"].values(), labels["healthy"]]
            texts = labels.values() if isinstance(labels, dict) else labels
            if texts is None:
                continue  # the recipe takes its names from the files
            assert {plain(text) for text in texts} == {plain(name) for name in relation.classes}, entry.key
            compared += 1
    assert compared >= (19 if folder == SETS[0] else 0)


def test_the_shares_of_the_published_columns() -> None:
    """Column All of the published table 5 is the mean of its columns with these shares, to the last digit."""
    import csv

    values: dict[tuple[str, str], float] = {}
    with (ROOT / "manifests" / "published" / "results.csv").open() as stream:
        for row in csv.DictReader(stream):
            if row["table"] == "5":
                values[row["model"], row["column"]] = float(row["value"])
    entries = [entry for entry in loaded(SETS[0]).entries if entry.aspect != "cross-source"]
    models = {model for model, _ in values}
    assert len(models) == 10
    for model in models:
        mean = sum(values[model, entry.aspect] for entry in entries) / len(entries)
        assert mean == pytest.approx(values[model, "graded"], abs=0.006)
    tasks = load_tasks(SETS[0] / "tasks.tsv")
    assert len({source for entry in entries for source in tasks[entry.task or ""].sources}) == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "steps", "classes": ["a", "b", "A"], "gains": [0.5]}, "each class once"),
        ({"kind": "steps", "classes": ["a", "b", "c"], "gains": [0.2, 0.5]}, "do not rise"),
        ({"kind": "groups", "classes": ["a", "b"], "groups": [{"gain": 0.5, "classes": ["a", "x"]}]}, "'x' is none"),
        ({"kind": "groups", "classes": ["a", "b"], "groups": [{"gain": 1.0, "classes": ["a", "b"]}]}, "less than 1"),
        ({"kind": "other", "classes": ["a", "b"]}, "does not match any of the expected tags"),
    ],
)
def test_a_wrong_relation_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(AnyRelation).validate_python({"note": "made for a test"} | change)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("relation: blood_cells", "relation: blood", "entry graded_BloodMNIST_i2i names relation 'blood'"),
        ("task: PathMNIST_i2i", "task: PathMNIST", "entry graded_PathMNIST_i2i names task 'PathMNIST'"),
        ("key: graded_LC25000_i2i", "key: graded_PathMNIST_i2i", "holds entry 'graded_PathMNIST_i2i' twice"),
        ("key: graded_LC25000_i2i", "key: LC25000_i2i", "has key or index of a task"),
    ],
)
def test_an_entry_that_fits_nothing_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = (SETS[0] / "graded.yaml").read_text()
    assert old in text
    (tmp_path / "graded.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(MedhebError, match=r"graded\.yaml") as caught:
        load_graded(tmp_path, load_tasks(SETS[0] / "tasks.tsv"))
    assert said in str(caught.value)
