"""Rows of Train_Data: pairs, and what is left out with a count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_training import image_row, made_run, text_row, write_rows
from pydantic import ValidationError

from medheb.core.errors import MedhebError
from medheb.manifest.medemb import MedEmb
from medheb.train.plan import make_plan, read_plan
from medheb.train.rows import BadRowError, parse

TEXT = text_row(3)


def line(**changes: Any) -> bytes:
    return json.dumps({**TEXT, **changes}).encode()


def test_a_row_becomes_a_pair() -> None:
    pair, positives = parse(json.dumps(image_row("train/000.png", 2)).encode(), volumes=False)
    assert positives == 1
    assert pair.instruction == "Represent the given image:"
    assert (pair.query.modality, pair.query.text) == ("image", "Which colour is it?")
    assert pair.query.images == ("2D_Images/colours/train/000.png",)
    assert (pair.target.modality, pair.target.text) == ("text", "blue")


def test_several_pictures_are_a_volume_where_the_task_is_3d() -> None:
    row = image_row("a.png", 0)
    row["messages"][1]["content"] = "<image><image>x"
    row["images"] = ["./a/0.png", "./a/1.png"]
    content = json.dumps(row).encode()
    assert parse(content, volumes=True)[0].query.modality == "volume"
    assert parse(content, volumes=False)[0].query.modality == "image"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "not JSON"),
        (b"[1]", "wrong"),
        (b"\xff\xfe", "not JSON"),
        (line(positive_messages=[]), "no target"),
        (line(positive_messages=[[]]), "no target"),
        (line(messages=[{"role": "system", "content": "x"}]), "one query"),
        (line(messages=[{"role": "user", "content": "<image>x"}]), "other images"),
        (line(images=["./a.png"]), "other images"),
        (line(messages=[{"role": "user", "content": " "}]), "empty side"),
        (line(messages=[{"role": "user", "content": "<image>"}], images=["../a.png"]), "field images"),
        (line(messages=[{"role": "user", "content": "<image>"}], images=["/a.png"]), "field images"),
        (line(messages=[{"role": "robot", "content": "x"}]), "field messages.role"),
        (line(extra=1), "field extra"),
    ],
)
def test_rows_that_cannot_be_used(content: bytes, why: str) -> None:
    with pytest.raises(BadRowError, match=why):
        parse(content, volumes=False)


def test_equal_targets_share_a_number() -> None:
    keys = [parse(json.dumps(image_row("a.png", colour)).encode(), volumes=False)[0].target_key for colour in (0, 1, 0)]
    assert keys[0] == keys[2] != keys[1]
    assert all(0 <= key < 1 << 63 for key in keys)


def test_bad_rows_are_counted_and_named(tmp_path: Path) -> None:
    run = made_run(tmp_path, pictures=4)
    good = [text_row(number) for number in range(6)]
    double = {**text_row(9), "positive_messages": [*text_row(9)["positive_messages"], *TEXT["positive_messages"]]}
    bare = image_row("train/000.png", 0)
    del bare["images"]
    missing = image_row("train/none.png", 0)
    endless = {**TEXT, "messages": [{"role": "user", "content": "word " * 200}]}
    write_rows(
        run,
        {
            "colour": [bare, missing, image_row("train/001.png", 1), TEXT],
            "phrase": [*good, "{", "[" * 100_000, double, endless],
        },
    )
    plan = make_plan(run, "tiny", tmp_path / "plan")
    assert (plan.rows, plan.pairs, plan.several_positives) == (14, 8, 1)
    assert plan.left_out == {
        "an image or text that the model cannot take": 1,
        "has other images than its text has places for": 1,
        "is not JSON": 2,
        "longer than 256 tokens": 1,
        "shows no picture, as rows of its task do": 1,
    }
    assert plan.named["is not JSON"][0].startswith("phrase_train.jsonl byte ")


def test_plan_is_the_same_each_time_and_can_be_read(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    first = make_plan(run, "tiny", tmp_path / "a")
    second = make_plan(run, "tiny", tmp_path / "b")
    assert first == second
    assert (tmp_path / "a/plan.parquet").read_bytes() == (tmp_path / "b/plan.parquet").read_bytes()
    read = read_plan(tmp_path / "a")
    assert sorted(pair for batch in read.batches for pair in batch) == list(range(64))


def test_plan_that_was_touched_is_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    make_plan(run, "tiny", tmp_path / "a")
    content = json.loads((tmp_path / "a/plan.json").read_text())
    (tmp_path / "a/plan.json").write_text(json.dumps({**content, "table": "0" * 64}))
    with pytest.raises(MedhebError, match=r"plan\.parquet.*vouches"):
        read_plan(tmp_path / "a")


def test_caps_draw_by_content(tmp_path: Path) -> None:
    run = made_run(tmp_path, caps={"colours": 10})
    plan = make_plan(run, "tiny", tmp_path / "a")
    assert plan.pairs == 34
    assert plan.left_out == {"over the cap of their source": 30}


def test_unknown_size_and_wrong_base(tmp_path: Path) -> None:
    run = made_run(tmp_path, bases={"tiny": "tiny", "lost": "nobody"})
    with pytest.raises(MedhebError, match="Allowed: tiny, lost"):
        make_plan(run, "9b", tmp_path)
    with pytest.raises(MedhebError, match="or add nobody to `models`"):
        make_plan(run, "lost", tmp_path)


def test_no_rows_at_all(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    run.layout.train_summary.unlink()
    with pytest.raises(MedhebError, match="snakemake train_data"):
        make_plan(run, "tiny", tmp_path)


def test_wrong_caps_and_sizes_are_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path, pictures=4, texts=4, caps={"colors": 2})
    with pytest.raises(MedhebError, match=r"medemb\.caps: names colors, which this run has not"):
        make_plan(run, "tiny", tmp_path / "plan")
    for wrong, why in (
        ({"caps": {"colours": 0}}, "greater than or equal to 1"),
        ({"sizes": ("9z",)}, "sizes names 9z"),
    ):
        with pytest.raises(ValidationError, match=why):
            MedEmb.model_validate(wrong)
