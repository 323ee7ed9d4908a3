"""Rules of the families on planted trouble: repeated pixels, torn labels, several right answers, missing splits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import make_sources as make
import pytest
from make_benchmark import ROOT

from medheb.build.inventory import BuiltFile
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.index.builders.registry import build_rows, training_pairs
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.records import Record
from medheb.manifest.base import read_yaml, validate
from medheb.manifest.dataset import Place
from medheb.manifest.protocol import Protocol
from medheb.manifest.rules import IndexRule, load_rules

SEED = 17


def protocol(name: str) -> Protocol:
    path = ROOT / "manifests" / "protocols" / f"{name}.yaml"
    return validate(Protocol, read_yaml(path), path)


def picture(name: str, label: str | None = None, pixels: str = "", **facts: Any) -> BuiltFile:
    return make.built_file(name, pixels or name, **{"kind": "picture", "split": "test", "label": label, **facts})


class World:
    """One source with pictures and files of JSON lines."""

    def __init__(self, folder: Path, *files: BuiltFile) -> None:
        self.layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
        self.files = list(files)

    def lines(self, name: str, rows: Sequence[dict[str, Any]], kind: str = "records", **facts: Any) -> World:
        """Add a file of JSON lines."""
        return self.content(name, "".join(json.dumps(row) + "\n" for row in rows), kind=kind, **facts)

    def content(self, name: str, content: str, **facts: Any) -> World:
        """Add a file."""
        path = self.layout.benchmark / "2D_Images/world" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        digest = sha256_bytes(content.encode())
        known = {"bytes": len(content), "sha256": digest, "content": f"raw1:{digest}"}
        self.files.append(BuiltFile.model_validate({"path": name, "facts": facts, **known}))
        return self

    def sources(self, builder: str, options: dict[str, Any], switches: str = "corrected", **more: Any) -> Sources:
        """The world under one rule named ``rule``."""
        inventory = make.inventory("world", sorted(self.files, key=lambda file: file.path), images="2D_Images/{}")
        rules = {"rule": IndexRule(builder=builder, options=options)}
        return Sources([Source(inventory, self.layout, "2D_Images/world", **more)], rules, protocol(switches))

    def rows(
        self, builder: str, options: dict[str, Any], switches: str = "corrected", task: dict[str, Any] | None = None
    ) -> list[Record]:
        """Rows of one rule."""
        fields = {"image_root": "2D_Images/world", **(task or {})}
        found = self.sources(builder, options, switches)
        return list(build_rows(make.task("rule", "world", **fields), found, Draw(SEED, "Some_task")))


ITEMS = {"items": {"kind": "picture"}}


def classes(folder: Path, *more: BuiltFile) -> World:
    made = [picture(f"{label}/{number}.png", label) for label in ("a", "b", "c") for number in range(4)]
    return World(folder, *made, *more)


# classes
def test_several_labels_torn_labels_and_repeats_give_no_row(tmp_path: Path) -> None:
    world = classes(
        tmp_path,
        picture("several.png", "a | b"),
        picture("none.png"),
        picture("torn1.png", "a", "torn"),
        picture("torn2.png", "b", "torn"),
        picture("twice.png", "a", "a/0.png"),
        picture("valid.png", "a", split="valid"),
    )
    for builder in ("label", "label_to_image", "same_label"):
        records = world.rows(builder, ITEMS)
        assert len(records) == 12
        named = json.dumps([record.model_dump() for record in records])
        assert not any(name in named for name in ("several", "none.png", "torn", "twice", "valid"))


def test_labels_of_the_training_part_are_wrong_answers_too(tmp_path: Path) -> None:
    world = classes(tmp_path, picture("d.png", "d", split="train"))
    assert {len(record.tgt_text) for record in world.rows("label", ITEMS)} == {4}
    world = classes(tmp_path, picture("e.png", "a | e"))
    assert {len(record.tgt_text) for record in world.rows("label", ITEMS)} == {4}


def test_right_picture_is_of_another_patient_where_there_is_one(tmp_path: Path) -> None:
    made = [
        picture(f"{label}{patient}{number}.png", label, group=f"p{patient}")
        for label in "ab"
        for patient in range(2)
        for number in range(3)
    ]
    for record in World(tmp_path, *made).rows("same_label", ITEMS):
        query, right = str(record.qry_img_path), str((record.tgt_img_path or ("",))[0])
        assert (query[0], query[1]) == (right[0], str(1 - int(right[1])))
        assert len(record.tgt_text) == 2, "one picture of each other class"


def test_the_test_is_cut_after_sorting_by_a_keyed_hash(tmp_path: Path) -> None:
    world = classes(tmp_path)
    some = world.rows("label", {**ITEMS, "rows": 5})
    every = world.rows("label", ITEMS)
    assert [record for record in every if record in some] == some
    assert len(some) == 5
    # One picture more changes at most one of the rows that are kept.
    more = classes(tmp_path, picture("a/new.png", "a")).rows("label", {**ITEMS, "rows": 5})
    kept = {record.qry_img_path for record in some} & {record.qry_img_path for record in more}
    assert len(kept) >= 4


def test_splits_given_drawn_or_none(tmp_path: Path) -> None:
    bare = World(tmp_path, *(picture(f"{n}.png", "ab"[n % 2], split=None, group=f"g{n // 2}") for n in range(200)))
    with pytest.raises(MedhebError, match="finds 200 items, none of the split test"):
        bare.rows("label", ITEMS)
    drawn = bare.rows("label", {**ITEMS, "split": "drawn"})
    assert 30 < len(drawn) < 90
    groups = [str(record.qry_img_path) for record in drawn]
    assert all(f"{int(name[:-4]) ^ 1}.png" in groups for name in groups), "a group is on one side"
    assert len(bare.rows("label", {**ITEMS, "split": "none"})) == 200
    sources = bare.sources("label", {**ITEMS, "split": "drawn"})
    task = make.task("rule", "world", image_root="2D_Images/world")
    trained = {pair.query.entry.paths[0] for pair in training_pairs(task, sources, Draw(SEED, "t")) if pair.query.entry}
    assert trained.isdisjoint(groups)
    assert len(trained) + len(groups) == 200


def test_a_source_without_the_pictures_is_named(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match="task Some_task: finds none of the pictures that its rule asks for in world"):
        classes(tmp_path).rows("label", {"items": {"kind": "xray"}})


# questions
def asked(folder: Path) -> World:
    rows = [
        {"picture": f"{number}.png", "question": "Which?", "answer": f"answer {number}", "choices": ["x", "y"]}
        for number in range(12)
    ]
    rows.append({"picture": "0.png", "question": "Which?", "answer": "also right", "choices": ["x", "also right"]})
    rows.append({"picture": "0.png", "question": "WHICH?", "answer": "Answer 0.", "choices": []})
    rows.append({"picture": "gone.png", "question": "Which?", "answer": "lost", "choices": []})
    return World(folder, *(picture(f"{number}.png") for number in range(12))).lines("records/0.jsonl", rows)


ASKED = {**ITEMS, "asked": {"kind": "records"}}


def test_questions_stand_against_the_answers_of_the_task_or_their_own(tmp_path: Path) -> None:
    whole = asked(tmp_path).rows("question", ASKED)
    assert len(whole) == 13
    first = [record for record in whole if record.qry_img_path == "0.png"]
    assert {record.tgt_text[0] for record in first} == {"answer 0", "also right"}
    for record in first:
        assert len(record.tgt_text) == 12, "the other right answer is not among the wrong ones"
    assert all(len(record.tgt_text) == 13 for record in whole if record not in first)
    own = asked(tmp_path).rows("question", ASKED, "release")
    assert {len(record.tgt_text) for record in own} == {2, 3}
    assert all(set(record.tgt_text[1:]) <= {"x", "y"} for record in own if record.qry_img_path != "0.png")


def test_without_choices_a_row_gets_thirty_answers_of_its_own(tmp_path: Path) -> None:
    made = [picture(f"{number}.png", question="Which?", answer=f"answer {number}") for number in range(50)]
    world = World(tmp_path, *made)
    assert {len(record.tgt_text) for record in world.rows("question", ITEMS)} == {50}
    assert {len(record.tgt_text) for record in world.rows("question", ITEMS, "release")} == {30}


# reports
def test_reports_join_by_case_picture_or_folder(tmp_path: Path) -> None:
    slices = [
        make.built_file(
            f"s{case}/{number}.png",
            kind="slice",
            case=f"c{case}",
            group=f"g{case}",
            split="test",
            slot=number,
            slice=number,
        )
        for case in range(12)
        for number in (10, 9, 1)
    ]
    rows = [{"series": [f"s{case}", f"t{case}"], "text": f"Report {case // 2}."} for case in range(11)]
    world = World(tmp_path, *slices).lines("reports.jsonl", rows, "reports")
    options = {"items": {"kind": "slice", "by": "case"}, "joined": {"row": "series", "fact": "folder"}}
    records = world.rows("report", options, task={"form": "3d"})
    assert len(records) == 6, "cases of one text give one row, the case without a text none"
    assert records[0].qry_img_path == ("s0/1.png", "s0/9.png", "s0/10.png")
    assert all(sorted(record.tgt_text) == [f"Report {number}." for number in range(6)] for record in records)
    asked_for = world.rows("report_to_image", options, task={"form": "3d", "pool": "global"})
    assert [record.qry_text for record in asked_for] == [record.tgt_text[0] for record in records]
    with pytest.raises(MedhebError, match="finds no item with a text"):
        world.rows("report", {**options, "joined": {"row": "series", "fact": "case"}}, task={"form": "3d"})
    with pytest.raises(MedhebError, match="finds no records of kind 'letters' in world"):
        world.rows("report", {**options, "joined": {"kind": "letters"}}, task={"form": "3d"})


def test_pictures_of_one_report_are_one_query(tmp_path: Path) -> None:
    made = [
        picture(f"{case}_{number}.jpg", report=f"Bericht {case}", case=f"c{case}", slice=number)
        for case in range(11)
        for number in range(2)
    ]
    records = World(tmp_path, *made).rows("report", {"items": {"kind": "picture", "by": "case"}, "text": "report"})
    assert records[0].qry_img_path == ("0_0.jpg", "0_1.jpg")
    assert records[0].query.modality == "image"


# regions
def regions(folder: Path) -> World:
    files = []
    for number in range(12):
        facts: dict[str, Any] = {"case": f"c{number}", "group": f"g{number}", "split": "test"}
        files.append(make.built_file(f"p{number}.png", kind="picture", **facts))
        facts |= {"kind": "crop", "label": "polyp", "picture": f"p{number}.png"}
        for place in range(1 + number % 2):
            files.append(make.built_file(f"crop/{number}_{place}.png", number=place, **facts))
    return World(folder, *files)


REGION = {"pictures": {"kind": "picture"}, "crops": {"kind": "crop"}}


def test_several_crops_of_one_text_are_one_target_or_the_first(tmp_path: Path) -> None:
    task = {"family": "region", "pool": "global"}
    one = regions(tmp_path).rows("region", REGION, task=task)
    assert len(one) == 12
    assert all(record.tgt_text == ("",) and isinstance((record.tgt_img_path or ())[0], str) for record in one)
    all_crops = regions(tmp_path).rows("region", {**REGION, "several": True}, task=task)
    nested = {record.qry_img_path: record for record in all_crops}["p1.png"]
    assert nested.tgt_img_path == (("crop/1_0.png", "crop/1_1.png"),)
    assert nested.candidates[0].modality == "image"


def test_a_source_with_its_own_list_decides_the_rows(tmp_path: Path) -> None:
    listed = {**REGION, "listed": "selection/test.jsonl", "picture_key": ["path"], "crop_key": ["picture"]}
    task = {"family": "region", "pool": "global"}
    rows = [{"picture": f"p{n}.png", "label": "polyp", "crops": [f"crop/{n}_0.png"], "group": "g"} for n in (3, 1)]
    world = regions(tmp_path).lines("selection/test.jsonl", rows, "selection", split="test")
    assert [record.qry_img_path for record in world.rows("region", listed, task=task)] == ["p1.png", "p3.png"]
    rows[0]["crops"] = ["crop/lost.png"]
    broken = regions(tmp_path).lines("selection/test.jsonl", rows, "selection", split="test")
    with pytest.raises(MedhebError, match=r"selection/test\.jsonl, line 1: names a picture or crop that was not built"):
        broken.rows("region", listed, task=task)


# pairs by an identifier
def test_two_modalities_of_a_study(tmp_path: Path) -> None:
    def volume(study: int, modality: str, pixels: str = "") -> BuiltFile:
        facts = {"case": f"{study} {modality}", "study": f"s{study}", "group": f"s{study}", "modality": modality}
        return picture(f"{modality}/{study}.png", None, pixels, kind="slice", **facts)

    made = [volume(study, modality) for study in range(12) for modality in ("T1", "T2")]
    made += [volume(90, "T1"), volume(91, "T1", "same"), volume(91, "T2", "same")]
    options = {
        "query": {"kind": "slice", "by": "case", "where": {"modality": "T1"}},
        "target": {"kind": "slice", "by": "case", "where": {"modality": "T2"}},
        "key": "study",
    }
    task = {"form": "3d", "pool": "global", "family": "modality-bridging"}
    records = World(tmp_path, *made).rows("matched", options, task=task)
    assert len(records) == 12, "no row without a partner, none whose partner is itself"
    for record in records:
        assert record.tgt_img_path == ((str((record.qry_img_path or ("",))[0]).replace("T1", "T2"),),)
        assert record.qry_text == ""
        assert record.tgt_text == ("",)


# texts
def test_published_draws_are_taken_under_release_only(tmp_path: Path) -> None:
    rows = [
        {"id": f"{n}", "group": f"{n}", "language": "ab"[n % 2], "query": f"Q{n}", "target": f"T{n}"} for n in range(80)
    ]
    order = (*range(25, 32), *range(20, 25))
    drawn = [{"qry_inst": "Other:", "qry_text": f"Q{n}", "tgt_text": [f"T{n}", "T5"]} for n in order]
    world = World(tmp_path).lines("records.jsonl", rows)
    options = {"within": "language", "drawn": "drawn.json"}
    task = {"form": "text", "family": "text-text", "image_root": None}
    for record in world.rows("text_pairs", options, task=task):
        assert len(record.tgt_text) == 30
        assert len({int(text[1:]) % 2 for text in record.tgt_text}) == 1
    with pytest.raises(MedhebError, match=r"finds no drawn\.json, the rows of the published program"):
        world.rows("text_pairs", options, "release", task)
    world.content("drawn.json", json.dumps(drawn), kind="published index")
    published = world.rows("text_pairs", options, "release", task)
    assert [record.tgt_text for record in published] == [tuple(row["tgt_text"]) for row in drawn]  # type: ignore[arg-type]
    assert {record.qry_inst for record in published} == {"Find it:"}


def test_texts_lose_nothing_that_is_seen(tmp_path: Path) -> None:
    rows = [{"id": f"{n}", "group": f"{n}", "query": f"Q{n}", "target": f"<{n}.5 %\n-\u200b2 "} for n in range(12)]
    task = {"form": "text", "family": "text-text", "image_root": None}
    corrected = World(tmp_path).lines("records.jsonl", rows).rows("text_pairs", {}, task=task)
    assert corrected[0].tgt_text[0] == "<0.5 % -2"
    released = World(tmp_path).lines("records.jsonl", rows).rows("text_pairs", {}, "release", task)
    assert released[0].tgt_text[0] == "<0.5 %\n-\u200b2", "cleaned when it is embedded, as published"


# paths
def test_paths_take_the_places_of_the_layout(tmp_path: Path) -> None:
    made = [picture(f"inner/{label}/{n}.png", label) for label in "ab" for n in range(6)]
    world = World(tmp_path, *made)
    place = Place(path="2D_Images/shared/images", folder="inner", shared=True)
    sources = world.sources("label", ITEMS, places=(place,))
    inventory = sources.all[0].inventory
    shared = Sources([Source(inventory, world.layout, "2D_Images/shared", (place,))], sources.rules)
    records = list(build_rows(make.task("rule", "world", image_root="2D_Images/shared"), shared, Draw(1, "t")))
    assert str(records[0].qry_img_path) == "images/a/0.png"
    assert shared.contents()["images/a/0.png"] == made[0].content


# rules.yaml
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("rules: {}", r"rules\.yaml: key 'rules' is \{\}"),
        ("rules: {a: {builder: label, option: 1}}", r"key 'rules\.a\.option' is not known"),
        ("rules: {A-b: {builder: label}}", r"key 'rules\.A-b.*Allowed: text that matches"),
    ],
)
def test_bad_rule_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "rules.yaml").write_text(content)
    with pytest.raises(MedhebError, match=message):
        load_rules(tmp_path)
    (tmp_path / "rules.yaml").unlink()
    assert load_rules(tmp_path) == {}


@pytest.mark.parametrize(
    ("builder", "options", "message"),
    [
        ("label", {}, "rule rule of task Some_task: key 'items' is missing"),
        ("label", {**ITEMS, "split": "half"}, "key 'split' is 'half'. Allowed: 'given', 'drawn' or 'none'"),
        ("magic", ITEMS, "key 'builder' is 'rule'. Allowed: rule"),
        ("report", ITEMS, "has a rule without text and without joined"),
    ],
)
def test_bad_rules(tmp_path: Path, builder: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MedhebError, match=message.replace(".", r"\.")):
        classes(tmp_path).rows(builder, options)


def test_damaged_records_are_named_with_their_line(tmp_path: Path) -> None:
    task = {"form": "text", "family": "text-text", "image_root": None}
    for content, message in (
        ('{"id": 1, "group": 1}\nnot json\n', r"records\.jsonl, line 2: is not JSON"),
        ("[1]\n", r"records\.jsonl, line 1: is not a JSON object"),
        ('{"id": 1}\n', r"records\.jsonl, line 1: has no field 'group'"),
    ):
        with pytest.raises(MedhebError, match=message):
            World(tmp_path).content("records.jsonl", content, kind="records").rows("text_pairs", {}, task=task)
