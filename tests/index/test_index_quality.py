"""The quality report: every figure on a task whose answer is known, and pictures that sources share."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import make_sources as make
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medheb.build.inventory import BuiltFile
from medheb.index.across import shared_pictures
from medheb.index.measure import Measure
from medheb.index.paths import Images
from medheb.index.quality import Quality, Spread, labels_of, read_quality, spread_of, write_quality
from medheb.index.records import Record
from medheb.manifest.load import Run
from medheb.manifest.task import Task


def measured(run: Run, task: Task, records: list[Record], files: list[BuiltFile] | None = None) -> Quality:
    inventory = make.inventory("b", files or [])
    measure = Measure(run, task, Images([(run.datasets["b"], inventory)]))
    for record in records:
        measure.add(record)
    return measure.result()


def run_with(tmp_path: Path, task: Task) -> Run:
    return make.run_of(tmp_path, [task], b=make.inventory("b", []))


def texts(right: str, *wrong: str, query: str = "q.png", text: str = "") -> Record:
    return Record(qry_inst="Find it:", qry_text=text, qry_img_path=query, tgt_text=(right, *wrong))


def shown(*paths: str, query: str = "q.png", text: str = "") -> Record:
    empty = ("",) * len(paths)
    return Record(qry_inst="Find it:", qry_text=text, qry_img_path=query, tgt_text=empty, tgt_img_path=paths)


def test_pools_chance_and_repeats(tmp_path: Path) -> None:
    task = make.task("label", "b", family="image-label", image_root="3D_Images/b")
    records = [
        texts("a", "b", query="1.png"),
        texts("a", "b", "c", "b", query="2.png"),
        texts("b", *"acdefghi", "b", query="3.png"),
        texts("a", *"bcdefghij", query="1.png"),
    ]
    quality = measured(run_with(tmp_path, task), task, records)
    assert quality.rows == 4
    assert quality.repeated_queries == 1
    assert quality.pool == Spread(minimum=2, median=6.0, maximum=10, mean=6.0)
    assert quality.distinct_candidates == 10
    assert quality.chance_hit1 == pytest.approx((1 / 2 + 1 / 3 + 1 / 9 + 1 / 10) / 4)
    assert quality.chance_hit5 == pytest.approx((1 + 1 + 5 / 9 + 5 / 10) / 4)
    assert quality.trivial_hit5 == 0.5
    assert (quality.rows_with_repeats, quality.repeats, quality.positives_repeated) == (2, 2, 1)
    assert quality.labels is not None
    assert (quality.labels.classes, quality.labels.largest, quality.labels.smallest) == (2, 0.75, 1)
    assert quality.candidate_text == Spread(minimum=1, median=1.0, maximum=1, mean=1.0)
    assert quality.query_text is None
    assert quality.splits is None


def test_xrays_say_who_made_them_and_who_should_have(tmp_path: Path) -> None:
    task = make.task("matched", "b", family="modality-bridging", image_root="3D_Images/b")
    run = run_with(tmp_path, task)
    files = [
        make.built_file(f"{name}.png", projector=projector) for name, projector in (("1", "cone"), ("2", "release"))
    ]
    files.append(make.built_file("3.png"))
    records = [shown("3.png", query="1.png"), shown("3.png", query="2.png")]
    quality = measured(run, task, records, files)
    assert quality.projected is not None
    assert (quality.projected.expected, quality.projected.made_by) == (None, {"cone": 1, "release": 1})
    recipe = run.datasets["b"].recipe.model_copy(update={"name": "ct_rate"})
    follower = dataclasses.replace(run, datasets={"b": run.datasets["b"].model_copy(update={"recipe": recipe})})
    projected = measured(follower, task, records, files).projected
    assert projected is not None
    assert projected.expected == run.config.drr.chosen(run.config.protocol)
    assert measured(run, task, [shown("3.png", query="3.png")], files).projected is None


def test_answers_that_a_cleaning_merges(tmp_path: Path) -> None:
    task = make.task("text_pairs", "b", form="text", family="text-text", image_root=None)
    records = [
        Record(qry_inst="Find it:", qry_text="q1", tgt_text=("<3.5 %", "3.5", "5-10")),
        Record(qry_inst="Find it:", qry_text="q2", tgt_text=("5 10", "5-10", "x  y", "x y")),
        Record(qry_inst="Find it:", qry_text="q3", tgt_text=("x\ty", "x y", "z")),
    ]
    merged = measured(run_with(tmp_path, task), task, records).merged
    assert merged is not None
    # "<3.5 %" and "3.5"; "5-10" and "5 10"; three spellings of "x y".
    assert (merged.answers, merged.published, merged.published_rows) == (8, 4, 3)
    assert (merged.honest, merged.honest_rows) == (2, 1)


def files_with(**facts: tuple[str, str, str, str]) -> list[BuiltFile]:
    """Files by name: content, label, split, group."""
    return [
        make.built_file(f"{name}.png", content, label=label, split=split, group=group)
        for name, (content, label, split, group) in facts.items()
    ]


def test_splits_groups_and_equal_labels(tmp_path: Path) -> None:
    task = make.task("label", "b", image_root="3D_Images/b")
    files = files_with(
        q=("1", "cat", "test", "g1"),
        a=("2", "cat", "test", "g2"),
        b=("3", "dog", "test", "g3"),
        c=("4", "cat", "train", "g4"),
        twin=("3", "dog", "train", "g9"),
        other=("8", "dog", "train", "g2"),
    )
    records = [shown("a.png", "b.png", query="q.png"), shown("a.png", "c.png", query="b.png")]
    quality = measured(run_with(tmp_path, task), task, records, files)
    assert quality.positives_equal_label == 1
    assert quality.labels is not None
    assert quality.labels.classes == 1
    splits = quality.splits
    assert splits is not None
    assert splits.pictures == 4
    assert splits.by_split == {"test": 3, "train": 1}
    assert splits.equal_in_train == 1
    assert (splits.groups, splits.groups_in_train) == (3, 1)


def test_without_a_training_part_nothing_is_said_to_be_free_of_leaks(tmp_path: Path) -> None:
    task = make.task("label", "b", image_root="3D_Images/b")
    files = files_with(q=("1", "cat", "test", "g1"), a=("2", "cat", "test", "g2"), b=("3", "dog", "test", "g3"))
    # A list of training pictures that stay in place is none that could be compared.
    listed = make.built_file("training.jsonl", "x", split="train").model_copy(update={"content": "json1:x"})
    quality = measured(run_with(tmp_path, task), task, [shown("a.png", "b.png", query="q.png")], [*files, listed])
    assert quality.splits is not None
    assert (quality.splits.equal_in_train, quality.splits.groups, quality.splits.groups_in_train) == (None, 3, None)


def test_a_volume_is_in_the_training_part_only_as_a_whole(tmp_path: Path) -> None:
    task = make.task("label", "b", form="3d", image_root="3D_Images/b")
    black = "0"
    files = files_with(a0=(black, "x", "test", "1"), a1=("2", "x", "test", "1"), b0=(black, "x", "test", "2"))
    files += files_with(b1=("3", "x", "test", "2"), t0=(black, "x", "train", "9"), t1=("3", "x", "train", "9"))
    volumes = (("a0.png", "a1.png"), ("b0.png", "b1.png"))
    record = Record(qry_inst="Find it:", qry_text="x", tgt_text=("", ""), tgt_img_path=volumes)
    quality = measured(run_with(tmp_path, task), task, [record], files)
    assert quality.splits is not None
    assert (quality.splits.pictures, quality.splits.equal_in_train) == (4, 1)


def test_a_global_pool_counts_content_once(tmp_path: Path) -> None:
    task = make.task("label", "b", pool="global", image_root="3D_Images/b")
    files = files_with(
        a=("1", "cat", "test", "1"),
        b=("2", "cat", "test", "2"),
        twin=("1", "cat", "test", "3"),
        d=("4", "dog", "test", "4"),
    )
    records = [shown(f"{name}.png", text=name, query=f"q{name}.png") for name in ("a", "b", "twin", "d")]
    quality = measured(run_with(tmp_path, task), task, records, files)
    assert quality.pool == Spread(minimum=3, median=3.0, maximum=3, mean=3.0)
    assert quality.distinct_candidates == 3
    assert quality.positives_shared_name == 2
    assert quality.positives_equal_label == 3
    assert quality.trivial_hit5 == 1.0


def test_volumes_are_equal_if_all_slices_are(tmp_path: Path) -> None:
    task = make.task("label", "b", form="3d", image_root="3D_Images/b")
    files = files_with(a0=("1", "x", "test", "1"), a1=("2", "x", "test", "1"), b0=("1", "x", "test", "2"))
    files += files_with(b1=("2", "x", "test", "2"), c1=("3", "x", "test", "2"))
    volumes = (("a0.png", "a1.png"), ("b0.png", "b1.png"), ("b0.png", "c1.png"))
    record = Record(qry_inst="Find it:", qry_text="x", tgt_text=("", "", ""), tgt_img_path=volumes)
    quality = measured(run_with(tmp_path, task), task, [record], files)
    assert (quality.repeats, quality.positives_repeated, quality.distinct_candidates) == (1, 1, 2)


def test_written_reports_are_read_back_and_show_nothing_of_the_task(tmp_path: Path) -> None:
    task = make.task("label", "b", family="image-label", image_root="3D_Images/b")
    secret = measured(run_with(tmp_path, task), task, [texts("Secret finding", "b", text="Mr. Smith?")] * 3)
    write_quality(tmp_path / "q.json", secret)
    assert read_quality(tmp_path / "q.json") == secret
    text = (tmp_path / "q.json").read_text()
    assert "Secret" not in text
    assert "Smith" not in text
    assert json.loads(text)["rows"] == 3


@given(st.lists(st.integers(0, 50), min_size=1))
def test_spread_is_what_numpy_says(numbers: list[int]) -> None:
    values, counts = np.unique(numbers, return_counts=True)
    spread = spread_of(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    assert spread is not None
    assert (spread.minimum, spread.maximum) == (min(numbers), max(numbers))
    assert spread.median == np.median(numbers)
    assert spread.mean == pytest.approx(np.mean(numbers), abs=1e-3)


def test_no_rows_and_no_labels() -> None:
    from collections import Counter

    assert spread_of({}) is None
    assert labels_of(Counter()) is None
    even = labels_of(Counter(a=3, b=3))
    assert even is not None
    assert even.evenness == 1.0


def shared_run(tmp_path: Path, **files: Any) -> Run:
    tasks = [make.task("label", "b")]
    run = make.run_of(tmp_path, tasks, **{name: make.inventory(name, listed) for name, listed in files.items()})
    linked = run.datasets["c"].model_copy(update={"requires": ("b",)})
    return dataclasses.replace(run, datasets={**run.datasets, "c": linked})


def test_pictures_that_sources_share(tmp_path: Path) -> None:
    one = files_with(a=("1", "x", "test", "1"), b=("2", "x", "train", "1"), c=("1", "x", "test", "1"))
    two = files_with(a=("1", "x", "train", "1"), b=("2", "x", "train", "1"), d=("9", "x", "test", "1"))
    three = files_with(z=("2", "x", "test", "1"))
    run = shared_run(tmp_path, a=one, b=two, c=three)
    found = [
        (pair.first, pair.second, pair.pictures, pair.test_and_train, pair.linked) for pair in shared_pictures(run)
    ]
    assert found == [("a", "b", 2, 1, False), ("a", "c", 1, 1, False), ("b", "c", 1, 1, True)]


def test_patients_that_sources_share(tmp_path: Path) -> None:
    def scans(*patients: tuple[str, str], start: int) -> list[BuiltFile]:
        return [
            make.built_file(f"{split}/{name}.png", str(start + number), group=name, split=split)
            for number, (name, split) in enumerate(patients)
        ]

    # No test part: the validation part is the test.
    one = scans(("p1", "valid"), ("p2", "train"), ("p3", "valid"), start=0)
    two = scans(("p1", "train"), ("p2", "train"), ("p4", "test"), start=10)
    run = shared_run(tmp_path, a=one, b=two, c=scans(("p1", "train"), start=20))
    same = run.datasets["b"].model_copy(update={"patients": "a"})
    run = dataclasses.replace(run, datasets={**run.datasets, "b": same})
    (pair,) = shared_pictures(run)
    assert (pair.first, pair.second, pair.pictures) == ("a", "b", 0)
    assert (pair.groups, pair.groups_test_and_train) == (2, 1)


def test_sources_without_inventory_splits_or_pictures_share_nothing(tmp_path: Path) -> None:
    plain = [make.built_file("a.png", "1"), make.built_file("b.png", "2")]
    text = [plain[0].model_copy(update={"content": "json1:1"})]
    run = shared_run(tmp_path, a=plain, b=text, c=plain[:1])
    (pair,) = shared_pictures(run)
    assert (pair.first, pair.second, pair.pictures, pair.test_and_train) == ("a", "c", 1, 0)
    run.layout.inventory("3D_Images/c", "c").write_text("{}")
    assert shared_pictures(run) == []
