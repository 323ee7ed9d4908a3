"""Whatever a source offers: no candidate equals the right one, order does not matter, groups stay apart."""

from __future__ import annotations

from itertools import islice
from typing import Any

import make_sources as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medheb.build.inventory import BuiltFile
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.index.builders.registry import build_rows, training_pairs
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.records import as_json
from medheb.index.text_rules import comparable
from medheb.manifest.rules import IndexRule

LAYOUT = Layout(*(make.Path("nowhere"),) * 3)
PICTURES = st.lists(
    st.tuples(
        st.sampled_from("abcd"),  # label
        st.integers(0, 20),  # pixels
        st.integers(0, 6),  # patient
        st.sampled_from(["Yes", "yes.", "no", "left lung", "LEFT  lung"]),
        st.sampled_from(["Which side?", "Is there any?"]),
    ),
    min_size=1,
    max_size=40,
)


def files_of(pictures: list[tuple[str, int, int, str, str]]) -> list[BuiltFile]:
    whole = [
        make.built_file(
            f"{number:03d}.png",
            str(pixels),
            kind="picture",
            label=label,
            group=f"p{patient}",
            question=question,
            answer=answer,
            report=f"{answer} {pixels % 3}",
            study=f"s{number // 2}",
            modality="AB"[number % 2],
            case=f"c{number}",
        )
        for number, (label, pixels, patient, answer, question) in enumerate(pictures)
    ]
    crops = [
        make.built_file(
            f"crop_{number:03d}.png",
            str(100 + pixels // 2),
            kind="crop",
            label=label,
            group=f"p{patient}",
            case=f"c{number}",
        )
        for number, (label, pixels, patient, *_) in enumerate(pictures)
    ]
    return [*whole, *crops]


def sources_of(files: list[BuiltFile], builder: str, options: dict[str, Any]) -> Sources:
    inventory = make.inventory("b", files, images="2D_Images/{}")
    chosen = {} if builder in {"matched", "region"} else {"items": {"kind": "picture"}}
    rules = {"rule": IndexRule(builder=builder, options={**chosen, "split": "drawn", **options})}
    return Sources([Source(inventory, LAYOUT, "2D_Images/b")], rules)


@pytest.mark.parametrize(
    ("builder", "options"),
    [
        ("label", {}),
        ("same_label", {}),
        ("label_to_image", {}),
        ("question", {}),
        ("report", {"text": "report"}),
        ("report_to_image", {"text": "report"}),
        ("region", {"pictures": {"kind": "picture"}, "crops": {"kind": "crop"}}),
        (
            "matched",
            {
                "query": {"kind": "picture", "where": {"modality": "A"}},
                "target": {"kind": "picture", "where": {"modality": "B"}},
                "key": "study",
            },
        ),
    ],
)
@settings(max_examples=40, deadline=None)
@given(pictures=PICTURES)
def test_any_pictures(builder: str, options: dict[str, Any], pictures: list[tuple[str, int, int, str, str]]) -> None:
    files = files_of(pictures)
    task = make.task("rule", "b", image_root="2D_Images/b", pool="global" if builder == "region" else "local")
    draw = Draw(17, "Some_task")
    sources = sources_of(files, builder, options)
    try:
        records = list(build_rows(task, sources, draw))
    except MedhebError:
        return  # too little to make a row of; the refusals have tests of their own
    contents = sources.contents()
    for record in records:
        found = [(comparable(item.text), *(contents[path] for path in item.images)) for item in record.candidates]
        assert len(set(found)) == len(found)
        assert record.query.images[:1] != record.candidates[0].images[:1] or not record.query.images
    backwards = sources_of(files[::-1], builder, options)
    assert as_json(list(build_rows(task, backwards, draw))) == as_json(records)
    tested = {path for record in records for item in (record.query, record.candidates[0]) for path in item.images}
    groups = {file.facts["group"] for file in files if file.path in tested}
    trained = {group for pair in training_pairs(task, sources, draw) for _, group in pair.groups}
    assert trained.isdisjoint(groups)


@given(st.lists(st.integers(), unique=True, max_size=60), st.integers(0, 60))
def test_a_pick_is_a_permutation_whose_start_does_not_depend_on_how_far_it_goes(items: list[int], most: int) -> None:
    draw = Draw(3, "task")
    assert sorted(draw.pick(sorted(items), "row")) == sorted(items)
    assert list(islice(draw.pick(sorted(items), "row"), most)) == list(draw.pick(sorted(items), "row"))[:most]


def test_draws_are_the_same_on_every_machine() -> None:
    draw = Draw(17, "Some_task")
    assert list(draw.pick("abcdefgh", "row")) == list("cfbadghe")
    assert draw.subset([f"{n:03d}" for n in range(100)], 5, "rows", str) == ["001", "013", "019", "077", "080"]
