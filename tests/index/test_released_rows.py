"""Reading released task files: both generations, lists and texts, every fault with row and field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import make_sources as make
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medheb.core.errors import MedhebError
from medheb.index import json_rows
from medheb.index.json_rows import stream_rows
from medheb.index.records import Record, read_records, record_writer
from medheb.index.released import REMEDY, ReleasedFacts, released_records
from medheb.manifest.task import Task

QUESTION = "What is it?"
FORMS = {"2d": "image-image", "3d": "image-report", "text": "text-text"}


def task_of(form: str = "2d", family: str | None = None) -> Task:
    root = None if form == "text" else "3D_Images"
    return make.task("released", "b", form=form, family=family or FORMS[form], image_root=root)


def read(path: Path, task: Task, facts: ReleasedFacts | None = None, show: bool = True) -> list[Record]:
    return list(released_records(path, task, lambda path, row: path, facts or ReleasedFacts(), show))


def write(path: Path, rows: Any) -> Path:
    path.write_text(json.dumps(rows))
    return path


def row(**changes: Any) -> dict[str, Any]:
    return {"qry_inst": "Find it:", "qry_text": "", "qry_img_path": "q.png", "tgt_text": ["", ""]} | {
        "tgt_img_path": ["a.png", "b.png"],
        **changes,
    }


def old(**changes: Any) -> dict[str, Any]:
    return {
        "qry_inst": "<|image_1|> Find it:",
        "qry_text": "",
        "qry_img_path": "q.png",
        "tgt_inst": "Match the target",
        "tgt_text": ["<|image_1|>\n", "<|image_1|>\n"],
        "tgt_img_path": ["a.png", "b.png"],
        **changes,
    }


def test_both_generations_become_the_same_record(tmp_path: Path) -> None:
    facts = ReleasedFacts()
    one = read(write(tmp_path / "new.json", [row()]), task_of(), facts)
    assert facts.generation == "published"
    facts = ReleasedFacts()
    assert read(write(tmp_path / "old.json", [old()]), task_of(), facts) == one
    assert facts.generation == "old"
    assert one[0].candidates[0].images == ("a.png",)


@pytest.mark.parametrize(
    ("changes", "pictures"),
    [
        ({"tgt_text": [""], "tgt_img_path": [["a.png", "b.png"]]}, [("a.png", "b.png")]),
        ({"tgt_text": [""], "tgt_img_path": ["a.png", "b.png"]}, [("a.png", "b.png")]),
        ({"tgt_text": ["", ""], "tgt_img_path": [["a.png", "b.png"], "c.png"]}, [("a.png", "b.png"), ("c.png",)]),
        ({"tgt_text": [""], "tgt_img_path": [["a.png"], ["b.png"]]}, [("a.png",), ("b.png",)]),
        ({"tgt_text": [""], "tgt_img_path": "a.png"}, [("a.png",)]),
        ({"tgt_text": ["", ""], "tgt_img_path": ["./x//a.png", "b.png"]}, [("x/a.png",), ("b.png",)]),
    ],
)
def test_pictures_of_a_candidate(tmp_path: Path, changes: dict[str, Any], pictures: list[tuple[str, ...]]) -> None:
    (record,) = read(write(tmp_path / "t.json", [row(**changes)]), task_of())
    assert [item.images for item in record.candidates] == pictures
    assert {item.modality for item in record.candidates} == {"image"}


def test_several_crops_are_counted(tmp_path: Path) -> None:
    facts = ReleasedFacts()
    rows = [row(tgt_text=[""], tgt_img_path=[["a.png", "b.png"]]), row(extra=1)]
    read(write(tmp_path / "t.json", rows), task_of(), facts)
    assert facts.multi_picture_candidates == 1
    assert facts.unknown_fields == {"extra": 1}


@pytest.mark.parametrize(
    ("given_modality", "modality"),
    [({}, "volume"), ({"qry_modality": None}, "volume"), ({"qry_modality": "image"}, "image")],
)
def test_modality_of_volume_queries(tmp_path: Path, given_modality: dict[str, Any], modality: str) -> None:
    fields = {"qry_img_path": ["0.png", "1.png"], "tgt_text": "one report", "tgt_img_path": None}
    (record,) = read(write(tmp_path / "t.json", [row(**fields, **given_modality)]), task_of("3d"))
    assert (record.query.modality, record.query.images) == (modality, ("0.png", "1.png"))
    assert [item.text for item in record.candidates] == ["one report"]


def test_candidates_of_text_to_volume_rows_are_videos_whatever_they_say(tmp_path: Path) -> None:
    fields = {"qry_text": "liver", "tgt_img_path": [["0.png"], ["1.png"]], "tgt_modality": "image"}
    (record,) = read(write(tmp_path / "t.json", [row(**fields)]), task_of("3d", "text-image"))
    assert [item.modality for item in record.candidates] == ["volume", "volume"]
    assert record.query.images == ()
    (record,) = read(tmp_path / "t.json", task_of("3d", "modality-bridging"))
    assert [item.modality for item in record.candidates] == ["image", "image"]


def test_a_picture_list_of_a_report_query_is_one_query(tmp_path: Path) -> None:
    fields = {"qry_img_path": ["1.png", "2.png"], "tgt_text": ["right", "wrong"], "tgt_img_path": None}
    (record,) = read(write(tmp_path / "t.json", [row(**fields)]), task_of("2d", "image-report"))
    assert (record.query.modality, record.query.images) == ("image", ("1.png", "2.png"))


FAULTS: dict[str, tuple[Any, str, str]] = {
    "no object": ([1], "2d", r"row 0: field '\(whole row\)' is not a set of fields"),
    "no instruction": ([row(qry_inst=None)], "2d", r"row 0: field 'qry_inst' is missing"),
    "instruction is a number": ([row(), row(qry_inst=4)], "2d", r"row 1: field 'qry_inst' is not text: 4"),
    "empty query": ([row(qry_img_path="")], "2d", r"row 0: field 'qry_text' is empty, and the row has no query pict"),
    "no query picture": ([row(), row(qry_text="x", qry_img_path=[])], "2d", r"row 1: field 'qry_img_path' is empty"),
    "texts for pictures": ([row(tgt_text=["a", "b"], tgt_img_path=None)], "2d", r"field 'tgt_img_path' is missing"),
    "pictures for texts": ([row(qry_img_path=["0.png"])], "3d", r"'tgt_img_path' names pictures, and candidates of"),
    "empty pool of texts": ([row(tgt_text=[], tgt_img_path=None)], "2d", r"row 0: field 'tgt_text' is empty: the pool"),
    "empty pool of pictures": ([row(tgt_img_path=[])], "2d", r"row 0: field 'tgt_img_path' is empty: the pool"),
    "no candidates at all": ([row(tgt_text=None, tgt_img_path=None)], "2d", r"field 'tgt_text' is missing, and so is"),
    "positive is null": ([row(tgt_text=[None, "b"])], "2d", r"field 'tgt_text\[0\]' is null: the positive is missing"),
    "positive is blank": (
        [row(tgt_text=[" ", "b"], tgt_img_path=None)], "2d", r"field 'tgt_text\[0\]' is empty: the positive is missing"
    ),
    "positive without pictures": (
        [row(tgt_img_path=[[], ["a.png"]])], "2d", r"field 'tgt_img_path\[0\]' is empty: the positive is missing"
    ),
    "candidate without picture": ([row(tgt_img_path=["a.png", ""])], "2d", r"'tgt_img_path\[1\]' is empty"),
    "text for a list": ([row(tgt_text="a", tgt_img_path=None)], "2d", r"'tgt_text' is a text where a list"),
    "number in a list": ([row(tgt_text=["a", 4])], "2d", r"field 'tgt_text\[1\]' is not text: 4"),
    "path is a number": ([row(qry_img_path=4)], "2d", r"field 'qry_img_path' is neither a path nor a list of paths: 4"),
    "path leaves its folder": ([row(qry_img_path="../q.png")], "2d", r"is not a path inside.*'\.\./q\.png'"),
    "path of a candidate": (
        [row(tgt_img_path=["a.png", "x/../../b.png"])], "2d", r"'tgt_img_path\[1\]' is not a path inside"
    ),
    "absolute path": ([row(qry_img_path="/etc/q.png")], "2d", r"'qry_img_path' is not a path inside its folder"),
    "drive": ([row(qry_img_path="C:\\q.png")], "2d", r"'qry_img_path' is not a path inside its folder"),
    "folder only": ([row(qry_img_path="./")], "2d", r"'qry_img_path' names no file"),
    "lengths": ([row(tgt_text=["x", "y", "z"])], "2d", r"'tgt_text' has 3 entries, tgt_img_path 2"),
    "modality": ([row(qry_modality="sound")], "2d", r"'qry_modality' is none of image, video, text: 'sound'"),
    "repeated id": ([row(qry_id="q7"), row(qry_id="q7")], "2d", r"row 1: field 'qry_id' repeats the query id of row 0"),
    "id is a list": ([row(id=[])], "2d", r"row 0: field 'id' is neither text nor a whole number"),
    "mixed, old after new": ([row(), old()], "2d", r"row 1: field 'tgt_inst' says that this row is of the old record"),
    "mixed, new after old": ([old(), old(), row()], "2d", r"row 2: .* of the published record generation; .* are old"),
    "pictures in a text task": ([row()], "text", r"'qry_img_path' names pictures in a text task"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_with_row_and_field(tmp_path: Path, name: str) -> None:
    rows, form, message = FAULTS[name]
    path = write(tmp_path / "t.json", rows)
    with pytest.raises(MedhebError, match=message) as caught:
        read(path, task_of(form))
    assert caught.value.where.startswith(f"{path} row ")
    assert caught.value.remedy == REMEDY


def test_nothing_of_a_restricted_file_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(MedhebError) as caught:
        read(write(tmp_path / "t.json", [row(qry_img_path="/p10/p1000/s5.png")]), task_of(), show=False)
    assert "s5.png" not in str(caught.value)
    assert "row 0: field 'qry_img_path'" in str(caught.value)


GOOD = b'[{"qry_inst": "\xc3\xa4"}]'
BROKEN: dict[str, tuple[bytes, str]] = {
    "cut in a text": (GOOD[:15], "row 0: is cut off"),
    "cut in a character": (GOOD[:16], "row 0: is cut off"),
    "cut after a row": (GOOD[:-1], "row 0: is cut off"),
    "cut after a comma": (GOOD[:-1] + b",", "row 1: is cut off"),
    "empty file": (b"", "is not a list of records"),
    "an object": (b"{}", "is not a list of records"),
    "not UTF-8": (GOOD.replace(b"\xc3\xa4", b"\xe4"), "row 0: is not UTF-8 text .byte 0xe4."),
    "no comma": (b"[{} {}]", "row 0: is followed by '{' where a comma must be"),
    "no JSON": (b'[{"a": nope' + b" " * 100 + b"}]", r"row 0: is not JSON \(Expecting value"),
    "NaN": (b'[{"a": NaN}]', "row 0: holds NaN, which is not JSON"),
    "a field twice": (b'[{}, {"a": 1, "a": 2}]', "row 1: holds field 'a' twice"),
    "more after the end": (b"[{}] {}", "goes on after the end of its list"),
    "too deep": (b"[" * 200_000, "row 0: is nested too deeply"),
    "deep": (b'[{"a": ' + b"[" * 500 + b"]" * 500 + b"}]", "row 0: is nested too deeply"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_file_is_named_with_its_row(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(MedhebError, match=message) as caught:
        list(stream_rows(path, REMEDY))
    assert caught.value.where.startswith(str(path))
    assert caught.value.remedy == REMEDY


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[{"qry_inst": "\\ud800"}]')
    with pytest.raises(MedhebError, match="row 0: field 'qry_inst' holds half a character"):
        read(tmp_path / "t.json", task_of())


def test_a_missing_file_and_a_byte_order_mark(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match="is missing"):
        read(tmp_path / "t.json", task_of())
    (tmp_path / "t.json").write_bytes(b"\xef\xbb\xbf" + json.dumps([row()]).encode())
    assert len(read(tmp_path / "t.json", task_of())) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(VALUES, max_size=6), chunk=st.integers(1, 40), indent=st.sampled_from([None, 1]), ascii_=st.booleans()
)
def test_any_list_is_read_as_json_reads_it_whatever_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], chunk: int, indent: int | None, ascii_: bool
) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=ascii_), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "CHUNK_BYTES", chunk)
        assert list(stream_rows(path, "")) == list(enumerate(rows))


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(VALUES, min_size=1, max_size=4), data=st.data())
def test_any_cut_is_noticed(tmp_path_factory: pytest.TempPathFactory, rows: list[Any], data: st.DataObject) -> None:
    content = json.dumps(rows).encode()
    path = tmp_path_factory.mktemp("rows") / "t.json"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(MedhebError):
        list(stream_rows(path, ""))


NAMES = st.text("abc0123456789_", min_size=1, max_size=8).map(lambda name: f"{name}.png")
POOLS = st.lists(st.one_of(NAMES, st.lists(NAMES, min_size=1, max_size=3)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=40)
@given(pool=POOLS, text=st.text(min_size=1, max_size=10), form=st.sampled_from(["2d", "3d"]))
def test_what_is_read_is_written_in_the_published_form_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, pool: list[Any], text: str, form: str
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    records = read(
        write(folder / "in.json", [old(qry_text=text, tgt_text=[""] * len(pool), tgt_img_path=pool)]),
        task_of(form, "image-image"),
    )
    with record_writer(folder / "out.json") as writer:
        for record in records:
            writer.add(record)
    assert read_records(folder / "out.json") == records
    assert len(records[0].candidates) == len(pool)
    assert read(folder / "out.json", task_of(form, "image-image")) == records


def test_memory_does_not_grow_with_the_file(tmp_path: Path, many: Callable[[Path, int], None]) -> None:
    import tracemalloc

    many(tmp_path / "t.json", 1500)
    tracemalloc.start()
    count = sum(1 for _ in stream_rows(tmp_path / "t.json", ""))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1500
    assert (tmp_path / "t.json").stat().st_size > 7_000_000
    assert peak < 6_000_000


@pytest.fixture
def many() -> Callable[[Path, int], None]:
    """Writes rows of some 5 kB."""

    def write_many(path: Path, rows: int) -> None:
        line = json.dumps(row(tgt_text=[f"label number {number}" for number in range(240)], tgt_img_path=None))
        path.write_text("[" + ",\n".join([line] * rows) + "]")

    return write_many
