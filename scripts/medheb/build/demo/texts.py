"""Texts out of text sources: ICD-10-CM terms and titles, Open-i chest X-ray reports.

White space inside a text is folded to single blanks, as XML's line breaks and indents mean nothing;
nothing else is changed.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.fetch.unpack import read_members
from medheb.manifest.dataset import Unpack

REPORT_RULES = Unpack(include=("*.xml",), max_members=10_000, max_bytes=100_000_000, max_ratio=100.0)
REMEDY = "The file is not what the recipe was written for; fetch the pinned version again"
ENCODING = re.compile(rb"""^\s*<\?xml[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
MESH_SEPARATOR = "; "


def icd10cm_pairs(xml: Path) -> list[dict[str, str]]:
    """Inclusion terms of the ICD-10-CM tabular list, each with the title of its code.

    Args:
        xml: the tabular list as the CDC publishes it.

    Returns:
        Dicts with ``code``, ``chapter``, ``term``, ``title``, sorted by code and term.

    Raises:
        MedhebError: not such a list, or a chapter, code, title or term is missing or empty; names the file and element.
    """
    root = parse_xml(xml.read_bytes(), str(xml))
    if root.tag != "ICD10CM.tabular":
        raise MedhebError(xml, f"begins with element <{root.tag}> instead of <ICD10CM.tabular>", REMEDY)
    pairs: list[dict[str, str]] = []
    for chapter in root.iterfind("chapter"):
        number = _child_text(chapter, "name", str(xml), "chapter")
        for diagnosis in chapter.iter("diag"):
            code = _child_text(diagnosis, "name", str(xml), f"diag in chapter {number}")
            title = _child_text(diagnosis, "desc", str(xml), f"diag {code}")
            for note in diagnosis.iterfind("inclusionTerm/note"):
                term = _folded(note)
                if not term:
                    raise MedhebError(xml, f"has an empty <note> under <inclusionTerm> of diag {code}", REMEDY)
                pairs.append({"code": code, "chapter": number, "term": term, "title": title})
    if not pairs:
        raise MedhebError(xml, "holds no <inclusionTerm> in any <diag>", REMEDY)
    return sorted(pairs, key=lambda pair: (pair["code"], pair["term"]))


def openi_reports(tgz: Path) -> list[dict[str, str]]:
    """Open-i (Indiana University) chest X-ray reports that have both findings and an impression.

    The archive is read member by member under the same checks as any download; nothing is unpacked.

    Args:
        tgz: the reports, one XML file each.

    Returns:
        Dicts with ``id``, ``findings``, ``impression``, ``mesh`` (major terms joined by ``; ``), sorted by the
        number in ``id``.

    Raises:
        MedhebError: a damaged or hostile archive, a member that is not a report, an id that is missing or occurs
            twice, a report without major terms, or no report with both parts; names file, member and element.
    """
    reports: dict[str, dict[str, str]] = {}
    seen: set[str] = set()
    for name, content in read_members(tgz, REPORT_RULES):
        where = f"{tgz} member {name}"
        root = parse_xml(content, where)
        if root.tag != "eCitation":
            raise MedhebError(where, f"begins with element <{root.tag}> instead of <eCitation>", REMEDY)
        identifier = _report_id(root, where)
        if identifier in seen:
            raise MedhebError(where, f"repeats <uId> {identifier}", REMEDY)
        seen.add(identifier)
        findings, impression = _section(root, "FINDINGS"), _section(root, "IMPRESSION")
        if findings and impression:
            mesh = _mesh(root, where)
            reports[identifier] = {"id": identifier, "findings": findings, "impression": impression, "mesh": mesh}
    if not reports:
        raise MedhebError(tgz, "holds no report with both FINDINGS and IMPRESSION", REMEDY)
    return sorted(reports.values(), key=lambda report: _number(report["id"]))


def parse_xml(content: bytes, where: str) -> ET.Element:
    """Parse XML that declares no document type, so that no entity can expand or reach outside.

    Raises:
        MedhebError: a document type or entity, another encoding than UTF-8 (it could hide one), or broken XML.
    """
    body = content.removeprefix(b"\xef\xbb\xbf")
    declared = ENCODING.match(body)
    if b"\0" in body or (declared and declared.group(1).lower() not in {b"utf-8", b"us-ascii"}):
        raise MedhebError(where, "is not XML in UTF-8", REMEDY)
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise MedhebError(
            where, "declares a document type or entity", "Such XML is not read; check where it comes from"
        )
    try:
        return ET.fromstring(content)  # noqa: S314 - without a document type there are no entities
    except ET.ParseError as error:
        raise MedhebError(where, f"is not well-formed XML ({error})", REMEDY) from error


def _folded(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _child_text(element: ET.Element, tag: str, where: str, owner: str) -> str:
    child = element.find(tag)
    text = "" if child is None else _folded(child)
    if not text:
        state = "has no" if child is None else "has an empty"
        raise MedhebError(where, f"{state} <{tag}> in <{owner}>", REMEDY)
    return text


def _report_id(root: ET.Element, where: str) -> str:
    element = root.find("uId")
    identifier = "" if element is None else element.get("id", "").strip()
    if not re.fullmatch(r"[A-Za-z]+\d+", identifier):
        raise MedhebError(where, f"has no usable id in <uId> ({identifier!r})", REMEDY)
    return identifier


def _section(root: ET.Element, label: str) -> str:
    parts = [_folded(part) for part in root.iter("AbstractText") if part.get("Label") == label]
    return " ".join(part for part in parts if part)


def _mesh(root: ET.Element, where: str) -> str:
    terms = [_folded(term) for term in root.iterfind("MeSH/major")]
    if not terms or not all(terms):
        raise MedhebError(where, "has an empty or no <major> in <MeSH>", REMEDY)
    return MESH_SEPARATOR.join(terms)


def _number(identifier: str) -> tuple[str, int]:
    head = identifier.rstrip("0123456789")
    return head, int(identifier[len(head) :])
