"""Tables of sources that may not be shown: as publishers ship them, and messages that repeat nothing of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from medheb.build.closed_tables import Fault, rows_of
from medheb.core.errors import MedhebError


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"id,name\n1,a b\n",
        b"\xef\xbb\xbfid,name\r\n1,a b\r\n\r\n",
        b"id ; name;more\n 1;a b ;x\n;;\n",
        b"id\tname\r1\ta b\r",
        gzip.compress(b'id,name\n"1","a b"\n', mtime=0),
    ],
)
def test_tables_as_publishers_ship_them(content: bytes, tmp_path: Path) -> None:
    faults: list[Fault] = []
    (row,) = rows_of(put(tmp_path / "t.csv", content), ("id", "name"), faults)
    assert row.cells == {"id": "1", "name": "a b"}
    assert not faults


def test_quotes_lines_in_cells_short_and_long_rows(tmp_path: Path) -> None:
    faults: list[Fault] = []
    path = put(tmp_path / "t.csv", b'id,text,other\n1,"a,\n""b""",x\n2\n3,c,d,e\n4,c,d,\n')
    found = list(rows_of(path, ("id",), faults, optional=["text", "absent"]))
    assert [row.cells for row in found] == [
        {"id": "1", "text": 'a,\n"b"'},
        {"id": "2", "text": ""},
        {"id": "4", "text": "c"},
    ]
    assert [row.where for row in found] == ["t.csv, line 2", "t.csv, line 4", "t.csv, line 6"]
    assert faults == [
        (
            "t.csv, line 5",
            "has more cells than the header: 4, not 3",
            "Mend the row or take it out; the other rows are built",
        )
    ]


def test_free_text_without_quoting(tmp_path: Path) -> None:
    path = put(tmp_path / "t.txt", b'id\ttext\n1\tsays "x\n2\t"y\tz\tmore\n')
    assert [row.cells["id"] for row in rows_of(path, ("id",), [], quoted=False)] == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "t.csv: is empty"),
        (b"\n\n", "t.csv: is empty"),
        (b"10000032,secret\n", "t.csv: has no column id, name"),
        (b"id,name,id\n", "t.csv: has a column twice"),
        (b"id,name\n1,\xe9secret\n", "t.csv: is not UTF-8 text"),
        (b'id,name\n1,"secret\n', "t.csv, line 2: has quotes that do not close"),
        (gzip.compress(b"id,name\n1,secret\n", mtime=0)[:-9], "t.csv: is a damaged gzip file"),
    ],
)
def test_faults_repeat_nothing(content: bytes, fault: str, tmp_path: Path) -> None:
    with pytest.raises(MedhebError) as caught:
        list(rows_of(put(tmp_path / "t.csv", content), ("id", "name"), []))
    assert str(caught.value).startswith(fault)
    assert "secret" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"^t\.csv: is missing"):
        list(rows_of(tmp_path / "t.csv", ("id",), []))
