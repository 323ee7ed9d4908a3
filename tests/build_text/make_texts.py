"""Small text sources in the layouts of their hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def json_lines(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def exam(number: int, **changes: Any) -> Row:
    options = {f"op{letter}": f"{letter}{number}" for letter in "abcd"}
    names = {"choice_type": "single", "subject_name": "Anatomy", "topic_name": None, "exp": ""}
    return {"id": f"q{number}", "question": f"What is {number}?", **options, "cop": 1 + number % 4, **names, **changes}


def lay_medmcqa(top: Path, *changes: Row) -> None:
    json_lines(top / "data" / "dev.json", [exam(number) for number in range(5)] + list(changes))
    json_lines(top / "data" / "train.json", [exam(number) for number in range(10, 13)])


def lay_pubmedqa(top: Path, test: Mapping[str, str], **changes: Any) -> None:
    entry = {"QUESTION": "Does it?", "CONTEXTS": [" One. ", "Two."], "LONG_ANSWER": "It does.", "YEAR": None}
    rows = {str(pmid): {**entry, "final_decision": "yes", "LONG_ANSWER": f"Answer {pmid}"} for pmid in range(1, 6)}
    rows["5"] |= changes
    (top / "data").mkdir(parents=True, exist_ok=True)
    (top / "data" / "ori_pqal.json").write_text(json.dumps(dict(reversed(rows.items()))))
    (top / "data" / "test_ground_truth.json").write_text(json.dumps(test))


def lay_medical_qa(top: Path, pairs: list[tuple[str, str]]) -> None:
    answers = {"a1": "Rest and fluids.", "a2": "Surgery is needed.", "a3": "No.", "a4": "An operation."}
    questions = {"q1": "What helps?", "q2": "what  helps?", "q3": "Is it bad?", "q4": "Anything else?"}
    json_lines(top / "corpus.jsonl", [{"_id": key, "title": "", "text": text} for key, text in answers.items()])
    json_lines(top / "queries.jsonl", [{"_id": key, "text": text} for key, text in questions.items()])
    rows = [{"query-id": query, "corpus-id": answer, "score": 0} for query, answer in pairs]
    json_lines(top / "qrels" / "test.jsonl", rows)


LANGUAGES = ("arabic", "chinese", "english", "french", "korean", "russian", "spanish", "vietnamese")


def lay_health(top: Path, count: int = 32, header: str = "id,question,answer") -> Path:
    folder = top / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        rows = [f"{number},{language} question {number},{language} answer {number}" for number in range(count)]
        (folder / f"{language}.csv").write_text("\n".join([header, *rows, f"{count}, ,empty"]) + "\n", "utf-8-sig")
    return folder


LAYOUTS: dict[str, Callable[[Path], object]] = {
    "medmcqa": lay_medmcqa,
    "pubmedqa": lambda top: lay_pubmedqa(top, {"4": "yes", "2": "no"}),
    "medical_qa_retrieval": lambda top: lay_medical_qa(top, [("q1", "a1"), ("q2", "a2"), ("q3", "a3")]),
    "public_health_qa": lay_health,
}
