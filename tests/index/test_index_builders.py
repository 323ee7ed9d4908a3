"""Builders: what rows they make of what sources offer."""

from __future__ import annotations

from pathlib import Path

import make_sources as make
import pytest

from medheb.core.errors import MedhebError
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.records import Record
from medheb.index.run import build_records
from medheb.manifest.task import Task

VOLUME_RULES = ("label_volume", "matched_level", "same_label_volume", "text_to_volume", "xray_to_volume")


def rows(task: Task, sources: Sources, seed: int = 17) -> list[Record]:
    return build_records(task, sources, seed)


def label_at(path: str) -> str:
    return path.rsplit("/", 1)[1].rsplit("_", 1)[0].replace("_", " ")


def test_label_ranks_the_right_label_among_all_others(tmp_path: Path) -> None:
    sources = make.sources_of(tmp_path, b=make.person("b"))
    records = rows(make.task("label", "b", family="image-label", qry_text="What is it?"), sources)
    assert len(records) == 12
    for record in records:
        assert record.qry_text == "What is it?"
        assert label_at(str(record.qry_img_path)) == record.tgt_text[0]
        assert sorted(record.tgt_text) == sorted(organ[0] for organ in make.ORGANS)
        assert record.tgt_img_path is None
    assert len({record.tgt_text[1] for record in records}) > 1


def test_bare_group_names_are_no_wrong_answer_to_their_members(tmp_path: Path) -> None:
    mixed = (*make.ORGANS, ("vertebrae", "vertebrae", None, "skeletal system"))
    sources = make.sources_of(tmp_path, b=make.person("b", mixed))
    for record in rows(make.task("label", "b"), sources):
        if record.tgt_text[0] in {"vertebrae", "T12 vertebra"}:
            assert not {"vertebrae", "T12 vertebra"} <= set(record.tgt_text)
    for record in rows(make.task("text_to_image", "b", family="text-image"), sources):
        if record.qry_text in {"vertebrae", "T12 vertebra"}:
            labels = {label_at(str(path)) for path in record.tgt_img_path or ()}
            assert not {"vertebrae", "T12 vertebra"} <= labels


def test_label_of_volumes_lists_slices_in_order(tmp_path: Path) -> None:
    many = tuple((f"organ {index}", f"organ {index}", None, "none") for index in range(11))
    sources = make.sources_of(tmp_path, b=make.person("b", many))
    record = rows(make.task("label_volume", "b", form="3d", qry_text="What?"), sources)[0]
    assert record.qry_img_path == tuple(f"b/voi/organ_0/slice_{index:03d}.png" for index in range(3))
    assert record.qry_modality == "video"


def test_question_offers_the_answers_to_all_questions(tmp_path: Path) -> None:
    records = rows(make.task("question", "b", family="vqa"), make.sources_of(tmp_path, b=make.person("b")))
    assert len(records) == 12 + 12 + 4  # structure and system of every crop, side of the kidneys
    assert len({record.qry_text for record in records}) == 3
    side = next(record for record in records if "side" in record.qry_text)
    assert side.tgt_text[0] in {"left side of the body", "right side of the body"}
    assert {"liver", "urinary system"} <= set(side.tgt_text)
    assert len({frozenset(record.tgt_text) for record in records}) == 1


def test_same_label_image_is_of_the_other_person_and_the_only_one_of_its_group(tmp_path: Path) -> None:
    other = tuple(organ for organ in make.ORGANS if organ[0] not in {"left kidney", "aorta"})
    sources = make.sources_of(tmp_path, b=make.person("b"), a=make.person("a", other))
    records = rows(make.task("same_label_image", "b+a"), sources)
    assert len(records) == 10  # the other person has no aorta
    for record in records:
        paths = [str(path) for path in record.tgt_img_path or ()]
        assert all(path.startswith("a/crops/") for path in paths)
        assert str(record.qry_img_path).startswith("b/crops/")
        groups = [label_at(path).split()[-1] for path in paths]
        assert groups[0] == label_at(str(record.qry_img_path)).split()[-1]
        assert groups.count(groups[0]) == 1
        assert record.tgt_text == ("",) * len(paths)


def test_exact_side_is_preferred(tmp_path: Path) -> None:
    sources = make.sources_of(tmp_path, b=make.person("b"), a=make.person("a"))
    for record in rows(make.task("same_label_image", "b+a"), sources):
        assert record.tgt_img_path is not None
        assert label_at(str(record.tgt_img_path[0])) == label_at(str(record.qry_img_path))


def test_volumes_find_volumes(tmp_path: Path) -> None:
    many = tuple((f"organ {index}", f"organ {index}", None, "none") for index in range(12))
    sources = make.sources_of(tmp_path, b=make.person("b", many), a=make.person("a", many))
    records = rows(make.task("same_label_volume", "b+a", form="3d"), sources)
    assert len(records) == 12
    assert all(record.tgt_modality == "video" and len(record.tgt_text) == 10 for record in records)
    assert all(candidate.modality == "volume" for candidate in records[0].candidates)


def test_text_to_image_local_has_one_image_of_the_label(tmp_path: Path) -> None:
    for record in rows(make.task("text_to_image", "b"), make.sources_of(tmp_path, b=make.person("b"))):
        labels = [label_at(str(path)) for path in record.tgt_img_path or ()]
        assert labels[0] == record.qry_text
        assert len(labels) == len(set(labels)) == 6


def test_text_to_image_global_has_one_row_a_label(tmp_path: Path) -> None:
    many = tuple((f"organ {index}", f"organ {index}", None, "none") for index in range(12))
    sources = make.sources_of(tmp_path, b=make.person("b", many), c=make.person("c", many))
    records = rows(make.task("text_to_volume", "b+c", pool="global", form="3d"), sources)
    assert [record.qry_text for record in records] == sorted(organ[0] for organ in many)
    assert all(len(record.tgt_text) == 1 for record in records)


def test_region_asks_for_the_crop_of_the_named_organ_in_that_slice(tmp_path: Path) -> None:
    records = rows(
        make.task("region", "b", family="region", pool="global"), make.sources_of(tmp_path, b=make.person("b"))
    )
    assert len(records) == 12
    for record in records:
        crop = str((record.tgt_img_path or ("",))[0])
        assert label_at(crop) == record.qry_text
        index = int(crop.rsplit("_", 1)[1].removesuffix(".png"))
        assert record.qry_img_path == f"b/slices/slice_{index:03d}.png"


def test_matched_level_pairs_levels_of_two_sources(tmp_path: Path) -> None:
    sources = make.sources_of(tmp_path, t1=make.head("t1", 14), ct=make.head("ct", 12))
    records = rows(make.task("matched_level", "t1+ct", form="3d", pool="global"), sources)
    assert len(records) == 12
    assert records[3].qry_img_path == ("t1/slabs/03/slice_000.png", "t1/slabs/03/slice_001.png")
    assert records[3].tgt_img_path == (("ct/slabs/03/slice_000.png", "ct/slabs/03/slice_001.png"),)


def test_radiograph_finds_its_own_slab(tmp_path: Path) -> None:
    sources = make.sources_of(tmp_path, c=make.head("c", 6), a=make.head("a", 6))
    records = rows(make.task("xray_to_volume", "c+a", form="3d", pool="global"), sources)
    assert len(records) == 12
    assert records[0].qry_img_path == ("a/xray/00.png",)
    assert records[0].qry_modality == "image"
    assert records[0].query.modality == "image"
    assert records[0].candidates[0].modality == "volume"
    local = rows(make.task("xray_to_volume", "c+a", form="3d"), sources)
    assert all(len(record.tgt_text) == 10 for record in local)


def test_report_takes_wrong_lines_from_other_persons(tmp_path: Path) -> None:
    sources = make.sources_of(tmp_path, b=make.person("b"), a=make.person("a"))
    for record in rows(make.task("report", "b+a", family="image-report"), sources):
        assert record.tgt_text[0].startswith("b level")
        assert all(text.startswith("a level") for text in record.tgt_text[1:])
        assert len(record.tgt_text) == 13
    alone = rows(make.task("report", "b"), make.sources_of(tmp_path, b=make.person("b")))
    assert all(len(record.tgt_text) == 12 for record in alone)


def text_rows(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"r{index:03d}", "query": f"term {index}", "target": f"title {index}", "group": f"g{index % 3}"}
        for index in range(count)
    ]


def test_text_pairs_local_takes_wrong_texts_from_other_groups(tmp_path: Path) -> None:
    sources = make.text_source(tmp_path, text_rows(60))
    group = {row["target"]: row["group"] for row in text_rows(60)}
    records = rows(make.task("text_pairs", "words", form="text", family="text-text", image_root=None), sources)
    assert len(records) == 60
    for record in records:
        assert record.qry_text.split()[1] == record.tgt_text[0].split()[1]
        assert len(record.tgt_text) == 30
        assert group[record.tgt_text[0]] not in {group[text] for text in record.tgt_text[1:]}


def test_text_pairs_are_at_most_300_and_unambiguous(tmp_path: Path) -> None:
    doubtful = [
        {"id": "x1", "query": "Term  5", "target": "other", "group": "x"},
        {"id": "x2", "query": "new", "target": "TITLE 6", "group": "x"},
        {"id": "x3", "query": "same", "target": "Same", "group": "x"},
    ]
    sources = make.text_source(tmp_path, text_rows(400) + doubtful)
    task = make.task("text_pairs", "words", form="text", family="text-text", image_root=None, pool="global")
    records = rows(task, sources)
    assert len(records) == 300
    asked = {record.qry_text for record in records}
    assert not asked & {"term 5", "Term  5", "term 6", "new", "same"}


def test_changed_text_records_are_refused(tmp_path: Path) -> None:
    sources = make.text_source(tmp_path, text_rows(20))
    (tmp_path / "MedHEB" / "Text_Data" / "words" / "records.jsonl").write_text("{}\n")
    with pytest.raises(MedhebError, match=r"records\.jsonl: is missing or differs from its inventory"):
        rows(make.task("text_pairs", "words", form="text", image_root=None), sources)


@pytest.mark.parametrize("builder", sorted(name for name, rule in make.RULES.items() if rule.builder != "text_pairs"))
def test_rows_depend_on_content_seed_and_task_only(tmp_path: Path, builder: str) -> None:
    many = tuple((f"organ {index}", f"organ {index}", None, "none") for index in range(12))
    offers = {
        "b": make.person("b", many) + make.head("b"),
        "a": make.person("a", many) + make.head("a"),
    }
    pool = "global" if builder == "region" else "local"
    task = make.task(builder, "b+a", pool=pool, form="3d" if builder in VOLUME_RULES else "2d")
    forward = rows(task, make.sources_of(tmp_path, **offers))
    backward = rows(task, make.sources_of(tmp_path, **{name: files[::-1] for name, files in offers.items()}))
    assert forward == backward
    if pool == "local":
        assert rows(task, make.sources_of(tmp_path, **offers), seed=18) != forward


def test_draws_do_not_depend_on_order() -> None:
    draw = Draw(3, "task")
    assert draw.sample(list("abcdef"), 3, "row", str) == draw.sample(list("fedcba"), 3, "row", str)
    assert draw.sample(list("abcdef"), 6, "row", str) != Draw(3, "other").sample(list("abcdef"), 6, "row", str)


def test_refusals_of_builders(tmp_path: Path) -> None:
    one = make.sources_of(tmp_path, b=make.person("b"))
    with pytest.raises(MedhebError, match="task Some_task: has one source"):
        rows(make.task("same_label_image", "b"), one)
    with pytest.raises(MedhebError, match=r"key 'pool' is 'global'\. Allowed with builder same_label_image: local"):
        rows(make.task("same_label_image", "b+b", pool="global"), one)
    with pytest.raises(MedhebError, match="Allowed with builder region: global"):
        rows(make.task("region", "b"), one)
    with pytest.raises(MedhebError, match=r"key 'builder' is 'magic'\. Allowed: label"):
        rows(make.task("magic", "b"), one)
    outside = Sources([Source(make.inventory("b", make.person("b")), one.all[0].layout, "2D_Images")], make.RULES)
    with pytest.raises(MedhebError, match="outside the task's image root 2D_Images"):
        rows(make.task("label", "b", image_root="2D_Images"), outside)
    bare = [make.built_file(f"crops/{index}.png", kind="crop") for index in range(12)]
    with pytest.raises(MedhebError, match="finds 12 items, none with the fact 'label'"):
        rows(make.task("label", "b"), make.sources_of(tmp_path, b=bare))
    lonely = make.sources_of(tmp_path, b=make.person("b", make.ORGANS[:1]))
    with pytest.raises(MedhebError, match="finds one class only, so that no candidate is wrong"):
        rows(make.task("text_to_image", "b"), lonely)
    levels = [*make.head("a"), make.built_file("slabs/x/slice_000.png", kind="slab", case="a/x", level=3)]
    with pytest.raises(MedhebError, match="has two candidates with level 3"):
        rows(make.task("matched_level", "b+a"), make.sources_of(tmp_path, b=make.head("b"), a=levels))
