"""Rows of a released task JSON, of either record generation, as records of the published format.

Two generations exist (spec: reference task JSON section 2). The old one, which the published scripts write, has
``tgt_inst`` and the token ``<|image_1|>`` in its texts; the published one has neither. Nothing strips the token in the
published evaluator, so it is taken out here. What the evaluator makes of lists is kept (spec: reference evaluation
section 2): a candidate is one picture where texts and paths are of one length, else all paths are one candidate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from medheb.core.errors import MedhebError
from medheb.index.json_rows import stream_rows
from medheb.index.records import Record, WrittenModality
from medheb.index.refusal import RuleError
from medheb.manifest.base import check_relative
from medheb.manifest.task import Task

Generation = Literal["old", "published"]
Paths = str | tuple[str, ...]
TOKEN = "<|image_"  # noqa: S105 - a mark in a text, no secret
TOKENS = re.compile(r"(?:\s*<\|image_\d+\|>)+\s*")
ID_FIELDS = ("qry_id", "query_id", "id")
QUERY_FIELDS = ("qry_inst", "qry_text", "qry_img_path", "qry_modality")
TARGET_FIELDS = ("tgt_inst", "tgt_text", "tgt_img_path", "tgt_modality")
FIELDS = frozenset((*ID_FIELDS, *QUERY_FIELDS, *TARGET_FIELDS))
REMEDY = "Fetch the released index again; if it stays so, use 'task_index: rebuilt' for this task"
SHOWN_CHARACTERS = 60
PICTURE_TARGETS = frozenset({"image-image", "text-image", "region", "modality-bridging"})


class Place(Protocol):
    """Gives the path from our image root for a path of the file."""

    def __call__(self, path: str, row: int) -> str:
        """``path`` stands in ``row``."""


@dataclass
class ReleasedFacts:
    """What was met while reading one released task JSON."""

    generation: Generation | None = None
    unknown_fields: Counter[str] = field(default_factory=Counter)
    multi_picture_candidates: int = 0
    unread_query_pictures: int = 0


class _FaultError(ValueError):
    """A fault of one field."""

    def __init__(self, name: str, problem: str, value: Any = None) -> None:
        self.name, self.problem, self.value = name, problem, value
        super().__init__(problem)


def released_records(path: Path, task: Task, place: Place, facts: ReleasedFacts, show: bool) -> Iterator[Record]:
    """Records of a released task JSON, one by one.

    Args:
        path: the file as it was fetched.
        task: its row; form and family decide how lists are read.
        place: gives the path from our image root for a path of the file and its row.
        facts: filled while reading.
        show: may messages quote texts and paths of the file.

    Raises:
        MedhebError: a fault, with row and field: wrong type, empty pool, missing positive, a path that leaves its
            folder, a repeated query id, rows of both generations, or no valid JSON at all. Without ``show`` a
            RuleError, since it then quotes nothing.
    """
    try:
        yield from _records(path, task, place, facts, show)
    except MedhebError as error:
        if show:
            raise
        raise RuleError(error.where, error.fault, error.remedy) from None


def _records(path: Path, task: Task, place: Place, facts: ReleasedFacts, show: bool) -> Iterator[Record]:
    ids: dict[str, int] = {}
    for number, row in stream_rows(path, REMEDY):
        where = f"{path} row {number}"
        try:
            if not isinstance(row, Mapping):
                raise _FaultError("(whole row)", "is not a set of fields")
            _note_generation(row, facts)
            _note_id(row, ids, number)
            facts.unknown_fields.update(name for name in row if name not in FIELDS)
            yield _record(row, task, partial(place, row=number), facts)
        except _FaultError as fault:
            raise MedhebError(where, f"field '{fault.name}' {_told(fault, show)}", REMEDY) from None


def _told(fault: _FaultError, show: bool) -> str:
    if fault.value is None or not show:
        return fault.problem
    value = repr(fault.value)
    shown = value if len(value) <= SHOWN_CHARACTERS else f"{value[: SHOWN_CHARACTERS - 3]}..."
    return f"{fault.problem}: {shown}"


def generation_of(row: Mapping[str, Any]) -> Generation:
    """Which generation a row is of: the old one has ``tgt_inst`` or the picture token."""
    target = row.get("tgt_text")
    texts = [row.get("qry_inst"), row.get("qry_text"), *(target[:1] if isinstance(target, list) else [target])]
    tokens = any(isinstance(text, str) and TOKEN in text for text in texts)
    return "old" if tokens or "tgt_inst" in row else "published"


def _note_generation(row: Mapping[str, Any], facts: ReleasedFacts) -> None:
    found = generation_of(row)
    if facts.generation not in {None, found}:
        mark = "tgt_inst" if "tgt_inst" in row or found == "published" else "qry_inst"
        raise _FaultError(
            mark, f"says that this row is of the {found} record generation; the rows before it are {facts.generation}"
        )
    facts.generation = found


def _note_id(row: Mapping[str, Any], ids: dict[str, int], number: int) -> None:
    for name in ID_FIELDS:
        if row.get(name) is None:
            continue
        value = row[name]
        if not isinstance(value, str | int):
            raise _FaultError(name, "is neither text nor a whole number", value)
        key = f"{name} {value}"
        if key in ids:
            raise _FaultError(name, f"repeats the query id of row {ids[key]}", value)
        ids[key] = number


def _record(row: Mapping[str, Any], task: Task, place: Callable[[str], str], facts: ReleasedFacts) -> Record:
    instruction = _plain(_text(row, "qry_inst"))
    if not instruction:
        raise _FaultError("qry_inst", "is empty")
    query = _paths(row.get("qry_img_path"), "qry_img_path", place)
    if query and task.family == "text-image":
        # The published parser of text-image tasks does not read it.
        facts.unread_query_pictures += 1
        query = ()
    text = _plain(_text(row, "qry_text"))
    if not text.strip() and not query:
        raise _FaultError("qry_text", "is empty, and the row has no query picture")
    if not query and task.form != "text" and task.family != "text-image":
        # A model would silently get the text alone.
        raise _FaultError("qry_img_path", "is empty, and queries of this task are pictures")
    fields: dict[str, Any] = {"qry_inst": instruction, "qry_text": text, **_query(query, row, task)}
    texts = _texts(row, task)
    pictures = _pictures(row, place)
    if task.form == "text" and (query or pictures):
        raise _FaultError("qry_img_path" if query else "tgt_img_path", "names pictures in a text task")
    if pictures is None:
        pool = _text_pool(texts)
        if task.family in PICTURE_TARGETS:
            raise _FaultError("tgt_img_path", "is missing, and candidates of this task are pictures")
        return Record.model_validate({**fields, "tgt_text": pool})
    if task.family not in PICTURE_TARGETS:
        raise _FaultError("tgt_img_path", "names pictures, and candidates of this task are texts")
    return Record.model_validate({**fields, **_picture_pool(texts, pictures, row, task, facts)})


def _plain(text: str) -> str:
    return TOKENS.sub("", text) if TOKEN in text else text


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None and name != "qry_inst":
        return ""
    return _checked(value, name)


def _checked(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _FaultError(name, "is not text" if value is not None else "is missing", value)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _FaultError(name, "holds half a character (a lone surrogate)") from None
    return value


def _modality(row: Mapping[str, Any], name: str) -> WrittenModality:
    """``image`` only where the row says so; anything that is missing counts as a video, as published."""
    value = row.get(name)
    if value not in {None, "image", "video", "text"}:
        raise _FaultError(name, "is none of image, video, text", value)
    return "image" if value == "image" else "video"


def _query(paths: tuple[str, ...], row: Mapping[str, Any], task: Task) -> dict[str, Any]:
    modality = _modality(row, "qry_modality")
    if not paths:
        return {}
    if task.form == "3d":
        return {"qry_img_path": paths, "qry_modality": modality}
    return {"qry_img_path": paths[0]} if len(paths) == 1 else {"qry_img_path": paths, "qry_modality": "image"}


def _texts(row: Mapping[str, Any], task: Task) -> list[str] | None:
    value = row.get("tgt_text")
    if value is None:
        return None
    if isinstance(value, str):
        # The parser of volumes takes a bare string as one text; the one of pictures would split it into letters.
        if task.form != "3d":
            raise _FaultError("tgt_text", "is a text where a list of texts must be", value)
        value = [value]
    if not isinstance(value, list):
        raise _FaultError("tgt_text", "is not a list of texts", value)
    texts: list[str] = []
    for place, text in enumerate(value):
        if text is None and place == 0:
            raise _FaultError("tgt_text[0]", "is null: the positive is missing from its list")
        texts.append(_plain(_checked(text, f"tgt_text[{place}]")))
    return texts


def _text_pool(texts: list[str] | None) -> tuple[str, ...]:
    if texts is None:
        raise _FaultError("tgt_text", "is missing, and so is tgt_img_path")
    if not texts:
        raise _FaultError("tgt_text", "is empty: the pool has no candidate")
    for place, text in enumerate(texts):
        if not text.strip():
            missing = ": the positive is missing from its list" if place == 0 else ", and the candidate has no picture"
            raise _FaultError(f"tgt_text[{place}]", f"is empty{missing}")
    return tuple(texts)


def _paths(value: Any, name: str, place: Callable[[str], str]) -> tuple[str, ...]:
    """One path or a list of paths; nothing for null and the empty text."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (_path(value, name, place),)
    if not isinstance(value, list):
        raise _FaultError(name, "is neither a path nor a list of paths", value)
    return tuple(_path(path, f"{name}[{at}]", place) for at, path in enumerate(value))


def _path(value: Any, name: str, place: Callable[[str], str]) -> str:
    text = _checked(value, name)
    try:
        check_relative(text)
    except ValueError:
        fault = "is not a path inside its folder (absolute, or with .., backslash or colon)"
        raise _FaultError(name, fault, text) from None
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if not parts:
        raise _FaultError(name, "names no file", text)
    return place("/".join(parts))


def _pictures(row: Mapping[str, Any], place: Callable[[str], str]) -> list[Paths] | None:
    value = row.get("tgt_img_path")
    if value is None:
        return None
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise _FaultError("tgt_img_path", "is not a list of paths", value)
    if not value:
        raise _FaultError("tgt_img_path", "is empty: the pool has no candidate")
    pictures: list[Paths] = []
    for at, entry in enumerate(value):
        name = f"tgt_img_path[{at}]"
        if isinstance(entry, list):
            pictures.append(_paths(entry, name, place))
        else:
            pictures.append(_path(entry, name, place) if entry else ())
        if not pictures[-1]:
            missing = ": the positive is missing from its list" if at == 0 else ": the candidate has no picture"
            raise _FaultError(name, f"is empty{missing}")
    return pictures


def _picture_pool(
    texts: list[str] | None, pictures: list[Paths], row: Mapping[str, Any], task: Task, facts: ReleasedFacts
) -> dict[str, Any]:
    texts, pictures = _matched(texts, pictures)
    facts.multi_picture_candidates += sum(isinstance(entry, tuple) for entry in pictures) if task.form != "3d" else 0
    fields: dict[str, Any] = {"tgt_text": tuple(texts)}
    modality = _modality(row, "tgt_modality")
    if task.form == "3d":
        # Candidates of text-volume tasks are videos whatever the row says, as published.
        fields["tgt_modality"] = "video" if task.family == "text-image" else modality
        pictures = [(entry,) if isinstance(entry, str) else entry for entry in pictures]
    elif any(isinstance(entry, tuple) for entry in pictures):
        fields["tgt_modality"] = "image"
    return {**fields, "tgt_img_path": tuple(pictures)}


def _matched(texts: list[str] | None, pictures: list[Paths]) -> tuple[list[str], list[Paths]]:
    """A text for each candidate, and the paths of each candidate.

    Raises:
        _FaultError: lists whose lengths do not fit.
    """
    if texts is None:
        return [""] * len(pictures), pictures
    if len(texts) == len(pictures):
        return texts, pictures
    nested = any(isinstance(entry, tuple) for entry in pictures)
    if len(texts) == 1 and not nested:
        return texts, [_joined(pictures)]
    if nested and not any(text.strip() for text in texts):
        return [""] * len(pictures), pictures
    raise _FaultError("tgt_text", f"has {len(texts)} entries, tgt_img_path {len(pictures)}")


def _joined(pictures: Sequence[Paths]) -> Paths:
    return tuple(path for entry in pictures for path in ((entry,) if isinstance(entry, str) else entry))
