"""Names and synonyms out of small OBO files that the tests make."""

from __future__ import annotations

from pathlib import Path

import pytest

from medheb.build.demo.obo import exact_synonyms
from medheb.core.errors import MedhebError

HEAD = "format-version: 1.2\nname: not a term's\n"


def obo(folder: Path, *stanzas: str, head: str = HEAD) -> Path:
    path = folder / "terms.obo"
    path.write_text("\n\n".join([head, *stanzas]) + "\n", encoding="utf-8")
    return path


def term(*lines: str, number: int = 1, name: str = "Small head") -> str:
    return "\n".join(["[Term]", f"id: HP:{number}", f"name: {name}", *lines])


def texts(path: Path) -> list[str]:
    return [pair["synonym"] for pair in exact_synonyms(path)]


def test_exact_synonyms_are_sorted_with_the_name_of_their_term(tmp_path: Path) -> None:
    later = term('synonym: "Wide skull" EXACT []', number=2, name="Broad \\{skull\\}")
    first = term('synonym: "b" EXACT layperson [a, b]', 'synonym: "a" EXACT [x "y"]')
    assert exact_synonyms(obo(tmp_path, later, first)) == [
        {"id": "HP:1", "synonym": "a", "name": "Small head"},
        {"id": "HP:1", "synonym": "b", "name": "Small head"},
        {"id": "HP:2", "synonym": "Wide skull", "name": "Broad {skull}"},
    ]


def test_what_is_no_other_word_for_the_term_is_left_out(tmp_path: Path) -> None:
    found = texts(
        obo(
            tmp_path,
            term(
                'synonym: "SMALL HEAD" EXACT []',
                'synonym: "Smaller body" BROAD []',
                'synonym: "Small heads" EXACT plural_form []',
                'synonym: "SH" EXACT abbreviation []',
                'synonym: "  Little \\"head\\"  here" EXACT []',
                'synonym: "Little \\"head\\" here" EXACT layperson []',
            ),
            '[Typedef]\nid: has\nname: has\nsynonym: "owns" EXACT []',
            term('synonym: "Gone" EXACT []', "is_obsolete: true", number=3),
        )
    )
    assert found == ['Little "head" here']


@pytest.mark.parametrize(
    ("stanza", "message"),
    [
        ('[Term]\nid: HP:1\nsynonym: "a" EXACT []', "line 5: begins a term without one id and one name"),
        (term("id: HP:2"), "line 5: begins a term without one id and one name"),
        (term("synonym: a EXACT []"), "line 5: begins term HP:1, a synonym of which cannot be read"),
        (term('synonym: "a" SAME []'), "line 5: begins term HP:1, a synonym of which cannot be read"),
        (term(), "holds no term with an exact synonym"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path: Path, stanza: str, message: str) -> None:
    with pytest.raises(MedhebError) as refused:
        exact_synonyms(obo(tmp_path, stanza))
    assert message in str(refused.value)
    assert "terms.obo" in str(refused.value)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.obo"
    path.write_text("<html>")
    with pytest.raises(MedhebError, match="does not begin with 'format-version:'"):
        exact_synonyms(path)
    path.write_bytes(b"")
    with pytest.raises(MedhebError, match="does not begin with 'format-version:'"):
        exact_synonyms(path)
    path.write_bytes(b"format-version: \xff")
    with pytest.raises(MedhebError, match="is not text in UTF-8"):
        exact_synonyms(path)
