"""What texts are reduced to, and what that costs."""

from __future__ import annotations

import pytest

from medheb.index.text_rules import comparable, honest, merged, merges, published


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("5-10% of cases", "5 10 of cases"),
        ("<3.5 mg/dl", "3.5 mgdl"),
        ("T = 37.5 °C; p<0.05 (n=12)", "T 37.5 C; p0.05 (n12)"),
        ("line one\nline_two --- end", "line one line two end"),
        ("-4 dioptres", "4 dioptres"),
        ("Was ist das? Größe: 3\u00d74", "Was ist das Größe: 34"),
        ("发烧\uff0c怎么办\uff1f", "发烧怎么办"),
    ],
)
def test_published_cleaning_deletes_signs_that_carry_meaning(text: str, left: str) -> None:
    assert published(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<3.5 % (5-10)", "<3.5 % (5-10)"),
        ("  two\n words\t", "two words"),
        ("zero\u200bwidth\ufeff and \u202ebidi\u202c", "zerowidth and bidi"),
        ("bell\x07here", "bell here"),
        ("cafe\u0301", "caf\u00e9"),
        (
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
    ],
)
def test_honest_cleaning_deletes_only_what_nobody_sees(text: str, left: str) -> None:
    assert honest(text) == left
    assert honest(left) == left


def test_merged_answers_are_counted_and_named() -> None:
    answers = ["<5%", ">5%", "5 %", "5-10", "5 10", "normal", "normal"]
    assert merged(answers, published) == 3
    assert merged(answers, honest) == 0
    assert merges(answers, published) == [("5 %", "<5%", ">5%"), ("5 10", "5-10")]


def test_one_answer_in_several_spellings_is_one() -> None:
    assert comparable("Yes.") == comparable(" yes ") == comparable("\uff39\uff25\uff33")
    assert comparable("left  lung\n") == comparable("Left lung.")
    assert comparable("<5%") != comparable(">5%")
    assert comparable("-1") != comparable("1")
    assert comparable(".") == "."
    # Texts that the honest cleaning makes equal are one candidate.
    assert comparable("bell\x07here") == comparable("bell here") == comparable("bell\u200b here.")
