"""Texts out of small ICD-10-CM and Open-i files that the tests make."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from medheb.build.demo.texts import icd10cm_pairs, openi_reports
from medheb.core.errors import MedhebError

ICD = """<?xml version="1.0" encoding="utf-8"?>
<ICD10CM.tabular>
  <chapter>
    <name>2</name><desc>Later</desc>
    <section id="B00-B01"><desc>s</desc>
      <diag><name>B00</name><desc>Herpes</desc>
        <inclusionTerm><note>{term}</note><note>Another  name\n of it</note></inclusionTerm>
        <excludes1><note>not this</note></excludes1>
        <diag><name>B00.1</name><desc>{title}</desc><inclusionTerm><note>Deep</note></inclusionTerm></diag>
      </diag>
    </section>
  </chapter>
  <chapter>
    <name>1</name><desc>First</desc>
    <section id="A00-A01"><desc>s</desc>
      <diag>{code}<desc>Cholera</desc><inclusionTerm><note>Cholera \u00e9ltor</note></inclusionTerm></diag>
    </section>
  </chapter>
</ICD10CM.tabular>
"""
GOOD = {"term": "Simple", "title": "Herpes of the eye", "code": "<name>A00</name>"}
REPORT = """<?xml version="1.0" encoding="utf-8"?>
<eCitation><uId id="{id}"/><MedlineCitation><Article><Abstract>
<AbstractText Label="INDICATION">Cough</AbstractText>
<AbstractText Label="FINDINGS">{findings}</AbstractText>
<AbstractText Label="IMPRESSION">{impression}</AbstractText>
</Abstract></Article></MedlineCitation><MeSH>{mesh}</MeSH></eCitation>"""


def icd_file(folder: Path, **changes: str) -> Path:
    path = folder / "tabular.xml"
    path.write_text(ICD.format(**{**GOOD, **changes}), encoding="utf-8")
    return path


def report(identifier: str, **changes: str) -> bytes:
    fields = {
        "findings": "Clear   lungs.",
        "impression": "Normal.",
        "mesh": "<major>normal</major><major>\n Lung/left </major>",
    }
    return REPORT.format(id=identifier, **{**fields, **changes}).encode()


def reports_file(folder: Path, *contents: bytes, kind: bytes = tarfile.REGTYPE, name: str = "r/{}.xml") -> Path:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for number, content in enumerate(contents):
            info = tarfile.TarInfo(name.format(number))
            info.size, info.type = len(content), kind
            archive.addfile(info, io.BytesIO(content))
    path = folder / "reports.tgz"
    path.write_bytes(gzip.compress(plain.getvalue()))
    return path


def test_icd_pairs_are_sorted_and_folded(tmp_path: Path) -> None:
    assert icd10cm_pairs(icd_file(tmp_path)) == [
        {"code": "A00", "chapter": "1", "term": "Cholera \u00e9ltor", "title": "Cholera"},
        {"code": "B00", "chapter": "2", "term": "Another name of it", "title": "Herpes"},
        {"code": "B00", "chapter": "2", "term": "Simple", "title": "Herpes"},
        {"code": "B00.1", "chapter": "2", "term": "Deep", "title": "Herpes of the eye"},
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"term": " "}, "empty <note> under <inclusionTerm> of diag B00"),
        ({"title": ""}, "has an empty <desc> in <diag B00.1>"),
        ({"code": ""}, "has no <name> in <diag in chapter 1>"),
        ({"term": "<b>"}, "not well-formed XML"),
        ({"term": "&danger;"}, "not well-formed XML"),
    ],
)
def test_icd_faults_name_file_and_element(tmp_path: Path, changes: dict[str, str], expected: str) -> None:
    path = icd_file(tmp_path, **changes)
    with pytest.raises(MedhebError) as caught:
        icd10cm_pairs(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<other/>", "begins with element <other>"),
        (b"<ICD10CM.tabular/>", "holds no <inclusionTerm>"),
        (b"", "not well-formed"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><ICD10CM.tabular/>', "declares a document type"),
        ('<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><a/>'.encode("utf-16"), "not XML in UTF-8"),
        (b'<?xml version="1.0" encoding="cp037"?><a/>', "not XML in UTF-8"),
    ],
)
def test_files_that_are_no_icd(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "tabular.xml"
    path.write_bytes(content)
    with pytest.raises(MedhebError) as caught:
        icd10cm_pairs(path)
    assert expected in str(caught.value)


def test_reports_with_both_parts(tmp_path: Path) -> None:
    members = [report("CXR10"), report("CXR2"), report("CXR3", findings=""), report("CXR4", impression=" ")]
    expected = {"findings": "Clear lungs.", "impression": "Normal.", "mesh": "normal; Lung/left"}
    wanted = [{"id": "CXR2", **expected}, {"id": "CXR10", **expected}]
    assert openi_reports(reports_file(tmp_path, *members)) == wanted
    assert openi_reports(reports_file(tmp_path, *reversed(members))) == wanted


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([report("CXR1"), report("CXR1")], "member r/1.xml: repeats <uId> CXR1"),
        ([report("")], "member r/0.xml: has no usable id in <uId>"),
        ([report("CXR1", mesh="")], "member r/0.xml: has an empty or no <major> in <MeSH>"),
        ([report("CXR1", mesh="<major> </major>")], "has an empty or no <major>"),
        ([report("CXR1", findings="")], "holds no report with both FINDINGS and IMPRESSION"),
        ([b"<html/>"], "member r/0.xml: begins with element <html>"),
        ([report("CXR1")[:-20]], "member r/0.xml: is not well-formed XML"),
        ([], "matches unpack.include '*.xml'"),
    ],
)
def test_report_faults_name_member_and_element(tmp_path: Path, members: list[bytes], expected: str) -> None:
    path = reports_file(tmp_path, *members)
    with pytest.raises(MedhebError) as caught:
        openi_reports(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_nested_archive_is_walked_with_the_same_checks(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match="leaves its folder"):
        openi_reports(reports_file(tmp_path, report("CXR1"), name="../{}.xml"))
    with pytest.raises(MedhebError, match="symbolic link"):
        openi_reports(reports_file(tmp_path, report("CXR1"), kind=tarfile.SYMTYPE))
    path = reports_file(tmp_path, report("CXR1"))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(MedhebError, match="damaged or cut short"):
        openi_reports(path)
