"""The text sources: rows, parts, groups, odd and damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from make_texts import LANGUAGES, Row, exam, json_lines, lay_health, lay_medical_qa, lay_medmcqa, lay_pubmedqa
from making import built, faults, root

from medheb.build.text_pairs import group_alike
from medheb.build.text_public_health_qa import clean, published_records
from medheb.core.errors import MedhebError


def written(out: Path, folder: str, name: str = "records.jsonl") -> list[Row]:
    text = (out / "Text_Data" / folder / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def test_medmcqa_takes_the_option_that_is_counted_from_one(tmp_path: Path) -> None:
    lay_medmcqa(tmp_path, exam(5, question="what  is 3?"))
    inventory = built("medmcqa", tmp_path, tmp_path / "out")
    rows = written(tmp_path / "out", "medmcqa")
    assert [row["target"] for row in rows] == ["a0", "b1", "c2", "d3", "a4", "b5"]
    assert rows[5]["group"] == rows[3]["group"] == "q3"
    assert rows[0]["choices"] == ["a0", "b0", "c0", "d0"]
    assert [row["id"] for row in written(tmp_path / "out", "medmcqa", "train.jsonl")] == ["q10", "q11", "q12"]
    assert [file.facts["kind"] for file in inventory.files] == ["records", "training"]
    assert "records.jsonl: rows that repeat the query of another: 1 of 6" in inventory.notes
    assert root(inventory) == "596947309dd8bffd"


def test_medmcqa_rows_that_are_no_use(tmp_path: Path) -> None:
    lay_medmcqa(tmp_path, exam(6, cop=-1), exam(7, opc=" "), exam(8, question=None), exam(9, opa="x", opb="X ", cop=1))
    inventory = built("medmcqa", tmp_path, tmp_path / "out")
    found = faults(inventory)
    assert "dev.json, line 6: has the answer number -1, not 1 to 4" in found[0]
    assert "dev.json, line 7: has no opc" in found[1]
    assert "dev.json, line 8: has no question" in found[2]
    assert "records.jsonl: rows that have the right answer twice among their options: 1" in inventory.notes


def test_medmcqa_of_the_hub_is_refused(tmp_path: Path) -> None:
    lay_medmcqa(tmp_path, exam(6, cop=0))
    inventory = built("medmcqa", tmp_path, tmp_path / "out")
    assert any("dev.json: numbers its options from 0, not from 1" in text for text in faults(inventory))
    assert [file.path for file in inventory.files] == ["train.jsonl"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [("", "is empty"), ('{"id": 1}\n{"id"', "line 2: is not JSON"), ("[1]", "entry 1: is not a JSON object")],
)
def test_damaged_json_lines(tmp_path: Path, text: str, fault: str) -> None:
    lay_medmcqa(tmp_path)
    (tmp_path / "data" / "dev.json").write_text(text)
    inventory = built("medmcqa", tmp_path, tmp_path / "out")
    assert any(fault in found for found in faults(inventory))


def test_an_id_that_occurs_twice(tmp_path: Path) -> None:
    lay_medmcqa(tmp_path, exam(3))
    inventory = built("medmcqa", tmp_path, tmp_path / "out")
    assert any("records.jsonl: row q3: occurs twice" in text for text in faults(inventory))


def test_pubmedqa_is_split_by_the_publishers_list(tmp_path: Path) -> None:
    lay_pubmedqa(tmp_path, {"4": "yes", "2": "no"})
    inventory = built("pubmedqa", tmp_path, tmp_path / "out")
    rows = written(tmp_path / "out", "pubmedqa")
    assert [(row["id"], row["query"], row["target"]) for row in rows] == [
        ("2", "One. Two.", "Answer 2"),
        ("4", "One. Two.", "Answer 4"),
    ]
    assert [row["id"] for row in written(tmp_path / "out", "pubmedqa", "train.jsonl")] == ["1", "3", "5"]
    assert "test rows whose decision differs between the two files: 1" in inventory.notes
    assert root(inventory) == "5b5a546877d42107"


def test_pubmedqa_rows_that_are_no_use(tmp_path: Path) -> None:
    lay_pubmedqa(tmp_path, {"4": "yes", "77": "no"}, CONTEXTS=[])
    (tmp_path / "data" / "ori_pqal.json").write_text(
        (tmp_path / "data" / "ori_pqal.json").read_text().replace('"Answer 3"', '" "').replace("[]", "null")
    )
    found = "\n".join(faults(built("pubmedqa", tmp_path, tmp_path / "out")))
    assert "test_ground_truth.json: 77: is not among the labelled questions" in found
    assert "ori_pqal.json: 3: has no LONG_ANSWER" in found
    assert "ori_pqal.json: 5: has no CONTEXTS of text" in found


def test_pubmedqa_without_its_list(tmp_path: Path) -> None:
    lay_pubmedqa(tmp_path, {"4": "yes"})
    (tmp_path / "data" / "test_ground_truth.json").write_text("[]")
    with pytest.raises(MedhebError, match=r"test_ground_truth\.json: is not an object with an entry for each id"):
        built("pubmedqa", tmp_path, tmp_path / "out")
    (tmp_path / "data" / "test_ground_truth.json").unlink()
    with pytest.raises(MedhebError, match=r"holds no test_ground_truth\.json"):
        built("pubmedqa", tmp_path, tmp_path / "again")


def test_medical_qa_is_joined_by_ids(tmp_path: Path) -> None:
    lay_medical_qa(tmp_path, [("q1", "a1"), ("q2", "a2"), ("q3", "a3"), ("q9", "a1")])
    inventory = built("medical_qa_retrieval", tmp_path, tmp_path / "out")
    rows = written(tmp_path / "out", "medical_qa_retrieval")
    assert [(row["query"], row["target"]) for row in rows][:2] == [
        ("What helps?", "Rest and fluids."),
        ("what  helps?", "Surgery is needed."),
    ]
    assert [row["group"] for row in rows] == ["q1/a1", "q1/a1", "q3/a3"]
    assert any("test.jsonl, line 4: names q9, which has no text" in text for text in faults(inventory))
    assert "answers of fewer than 10 characters: 1" in inventory.notes
    assert "questions in no pair: 1" in inventory.notes
    assert root(inventory) == "935730fc0e07c5a0"


def test_medical_qa_needs_each_table_once(tmp_path: Path) -> None:
    lay_medical_qa(tmp_path, [("q1", "a1")])
    json_lines(tmp_path / "more" / "corpus.jsonl", [])
    with pytest.raises(MedhebError, match=r"holds 2 files that fit \*corpus\*, not one"):
        built("medical_qa_retrieval", tmp_path, tmp_path / "out")
    (tmp_path / "more" / "corpus.jsonl").unlink()
    json_lines(tmp_path / "queries.jsonl", [{"_id": "q1", "text": "x"}, {"_id": "q1", "text": "y"}])
    with pytest.raises(MedhebError, match=r"queries\.jsonl, line 2: has the id q1 again"):
        built("medical_qa_retrieval", tmp_path, tmp_path / "again")


def test_groups_are_joined_through_others() -> None:
    pairs = [("a", "1"), ("b", "2"), ("c", "3"), ("A ", "3"), ("d", "2")]
    rows = [{"id": str(place), "query": query, "target": target} for place, (query, target) in enumerate(pairs)]
    group_alike(rows)
    assert [row["group"] for row in rows] == ["0", "1", "0", "0", "1"]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("see https://a.b/c?d=1, and WWW.x.y/z now", "see and now"),
        ("seewww.x.y xhttp://z (http://a)", "seewww.x.y xhttp://z ("),
        ("\u4f60\u597dhttp://c.d/e", "\u4f60\u597dhttp://c.d/e"),
        ("\u200bzero\u200d\ufeff \u202eR\u2069 ", "zero R"),
        ("a\n\u00a0\tb", "a b"),
        ("https://only.a.link", ""),
    ],
)
def test_published_cleaning(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_public_health_rows_of_all_languages(tmp_path: Path) -> None:
    lay_health(tmp_path)
    inventory = built("public_health_qa", tmp_path, tmp_path / "out")
    rows = written(tmp_path / "out", "public_health_qa")
    assert len(rows) == 8 * 32
    assert rows[33] == {
        "id": "chinese/1",
        "group": "chinese/1",
        "language": "chinese",
        "query": "chinese question 1",
        "target": "chinese answer 1",
    }
    assert [file.path for file in inventory.files] == ["records.jsonl"]
    assert "arabic: rows that lack a question or an answer: 1 of 33" in inventory.notes
    assert root(inventory) == "3ef8751edcbe338c"


def test_published_draw_runs_on_from_language_to_language(tmp_path: Path) -> None:
    folder = lay_health(tmp_path)
    built("public_health_qa", tmp_path, tmp_path / "a", "release")
    (folder / "arabic.csv").unlink()
    built("public_health_qa", tmp_path, tmp_path / "b", "release")
    read = [
        json.loads((tmp_path / out / "Text_Data/public_health_qa/output_jsons/chinese.json").read_text("utf-8"))
        for out in ("a", "b")
    ]
    assert [row["qry_text"] for row in read[0]] == [row["qry_text"] for row in read[1]]
    assert read[0] != read[1]


def test_published_rows_need_29_other_answers() -> None:
    rows = [{"query": f"q{number}", "target": f"t{number % 29}"} for number in range(40)]
    generator = random.Random(1)
    state = generator.getstate()
    assert published_records(rows, generator) == []
    assert generator.getstate() == state, "rows that are left out draw nothing"
    [*_, last] = published_records([*rows, {"query": "q", "target": "other"}], generator)
    assert last["tgt_text"][0] == "other"
    assert sorted(last["tgt_text"][1:]) == sorted({row["target"] for row in rows})


def test_blanks_in_a_header_cost_release_the_file(tmp_path: Path) -> None:
    folder = lay_health(tmp_path)
    (folder / "french.csv").write_text("id, question,answer \n1,q,a\n")
    corrected = built("public_health_qa", tmp_path, tmp_path / "c")
    assert not faults(corrected)
    release = built("public_health_qa", tmp_path, tmp_path / "r", "release")
    assert any("french.csv: holds no row with a question and an answer" in text for text in faults(release))
    assert not (tmp_path / "r/Text_Data/public_health_qa/output_jsons/french.json").exists()


def test_damaged_tables_are_named_and_the_others_stay(tmp_path: Path) -> None:
    folder = lay_health(tmp_path)
    (folder / "arabic.csv").unlink()
    (folder / "chinese.csv").write_bytes("id,question,answer\n1,\xe9,x\n".encode("latin-1"))
    (folder / "english.csv").write_text("id,pregunta,answer\n1,a,b\n")
    (folder / "french.csv").write_bytes(b"")
    inventory = built("public_health_qa", tmp_path, tmp_path / "out")
    found = "\n".join(faults(inventory))
    assert "arabic.csv: is missing" in found
    assert "chinese.csv: is not UTF-8 text (byte 21)" in found
    assert "english.csv: has no column question; it has id, pregunta, answer" in found
    assert "french.csv: is empty" in found
    assert {row["language"] for row in written(tmp_path / "out", "public_health_qa")} == set(LANGUAGES[4:])
