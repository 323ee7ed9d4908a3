"""Tables, JSON files and parquet cells as publishers ship them."""

from __future__ import annotations

from pathlib import Path

import make_sets as make
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.parquet_rows import open_table, picture_bytes, read_rows
from medheb.build.splits import drawn_split, split_word, write_selections
from medheb.build.tables import read_json_file, read_table
from medheb.core.errors import MedhebError


@pytest.mark.parametrize(
    "text",
    [
        "name,split\na b,train\nc,test\n",
        "\ufeffname,split\r\na b,train\r\nc,test\r\n",
        "name;split\na b;train\nc;test",
        "name\tsplit\na b\ttrain\nc\ttest\n",
        " name , split \n a b , train \n\n c , test , \n , \n",
        '"name","split"\n"a b","train"\n"c","test"\n',
        "name,split\ra b,train\rc,test\r",
    ],
    ids=["plain", "mark and CRLF", "semicolons", "tabs", "blanks", "quotes", "CR"],
)
def test_tables_of_any_dialect_read_alike(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    rows = read_table(path, ["name", "split"])
    assert [row.cells for row in rows] == [{"name": "a b", "split": "train"}, {"name": "c", "split": "test"}]
    assert rows[0].where == f"{path}, line 2"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty"),
        (b" \r\n ", "is empty"),
        (b"id,split\n1,train\n", "has no column name"),
        (b"name,split,name\n", "has the name of column 3 twice"),
        (b"name,split\na,train,more\n", "has more cells than the header: 3, not 2"),
        ("name,split\ncaf\u00e9,train\n".encode("latin-1"), r"is not UTF-8 text \(byte 14\)"),
        (b'name,split\n"a,train\n', "is no table"),
    ],
)
def test_bad_tables_are_named(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(MedhebError, match=fault):
        read_table(path, ["name", "split"])
    with pytest.raises(MedhebError, match="is missing"):
        read_table(tmp_path / "other.csv")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1}\n{"a": 2}\n', "holds one JSON value a line, though its name ends in .json"),
        ('{"a": 1, "a": 2}', "a key stands twice"),
        ('{"a": NaN}', "NaN is no JSON value"),
        ('{"a": ', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_bad_json_is_named(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(MedhebError, match=fault):
        read_json_file(path)


def test_json_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('\ufeff{"a": [1]}', encoding="utf-8")
    assert read_json_file(path) == {"a": [1]}


def test_cells_that_are_dictionaries_bytes_or_paths(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "x.png").write_bytes(b"from a file")
    folders = (tmp_path / "nowhere", tmp_path)
    for cell in ({"bytes": b"in it", "path": "ignored"}, b"in it", memoryview(b"in it")):
        assert picture_bytes(cell, "t, row 1", folders) == b"in it"
    for cell in ({"bytes": None, "path": "beside/x.png"}, "beside/x.png"):
        assert picture_bytes(cell, "t, row 1", folders) == b"from a file"


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        (None, "holds no picture"),
        ({"bytes": None, "path": None}, "holds no picture"),
        ({"bytes": 7, "path": None}, "holds a int where a picture should be"),
        ([1, 2], "holds a list where a picture should be"),
        ("../secret.png", "names a picture whose path is not a path inside its folder"),
        ("/etc/hostname", "names a picture whose path is not a path inside its folder"),
        ("gone.png", "names a picture file that is not beside the table"),
    ],
)
def test_cells_that_are_no_pictures(tmp_path: Path, cell: object, fault: str) -> None:
    with pytest.raises(MedhebError, match=fault) as caught:
        picture_bytes(cell, "t, row 1", (tmp_path,))
    assert caught.value.where == "t, row 1"


def test_rows_of_a_block_have_their_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(100)), "b": ["x"] * 100}), path, row_group_size=40)
    table = open_table(path)
    assert (table.rows, [block.first for block in table.blocks]) == (100, [0, 40, 80])
    assert list(read_rows(table.blocks[2], ["a"])) == [(row, {"a": row}) for row in range(80, 100)]


def test_a_cut_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [make.png(make.pixels(n)) for n in range(30)]}), path, compression="none")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with pytest.raises(MedhebError, match="is not a parquet file"):
        open_table(path)
    path.write_bytes(whole[:200] + bytes(3000) + whole[3200:])
    block = open_table(path).blocks[0]
    path.write_bytes(whole[:1000])
    with pytest.raises(MedhebError, match=r"row 0: cannot be read"):
        list(read_rows(block, ["a"]))


def test_a_drawn_side_depends_on_its_group_only() -> None:
    sides = [drawn_split(17, "set", f"case {number}") for number in range(2000)]
    assert sides[:6] == [drawn_split(17, "set", f"case {number}") for number in range(6)]
    assert 0.66 < sides.count("train") / len(sides) < 0.74
    assert sides != [drawn_split(18, "set", f"case {number}") for number in range(2000)]
    assert sides != [drawn_split(17, "other", f"case {number}") for number in range(2000)]
    assert [split_word(word) for word in (" Training", "val", "validate", "TEST", "fold1")] == [
        "train",
        "valid",
        "valid",
        "test",
        None,
    ]


def test_selections_are_lists_of_paths(tmp_path: Path) -> None:
    def file(path: str, **facts: str) -> BuiltFile:
        return BuiltFile(path=path, bytes=1, sha256="0" * 64, content="x", facts=dict(facts))

    files = [
        file("a.png", kind="picture", split="test"),
        file("b.png", kind="picture", split="train"),
        file("c.png", kind="crop", split="test"),
        file("d.png", kind="picture"),
        file("e.png", kind="picture", split="test"),
    ]
    out = Output(tmp_path, "set")
    write_selections(files, out, ["picture"])
    assert (tmp_path / "selection" / "picture_test.txt").read_text() == "a.png\ne.png\n"
    assert sorted(out.files) == ["selection/picture_test.txt", "selection/picture_train.txt"]
