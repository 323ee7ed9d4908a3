"""The page: one self-contained HTML file that works without a network."""

from __future__ import annotations

import base64
import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from medheb.core.errors import MedhebError
from medheb.evaluate.score import METRICS
from medheb.fetch.found_weights import read_found
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import FAMILY_TITLES
from medheb.manifest.weights import HubWeights
from medheb.report import words
from medheb.report.collect import Results, SourceFacts
from medheb.report.figure_style import Drawn
from medheb.report.gallery import TaskGallery
from medheb.report.graded import Graded, graded_section
from medheb.report.notes import model_notes, result_notes, source_notes, task_notes
from medheb.report.paper import METRIC_LABELS, PaperTable
from medheb.report.privacy import safe_link
from medheb.report.published import Published
from medheb.report.quality import index_quality, shown_spread
from medheb.report.sections import costs, figures_section, paper_section, significance_section
from medheb.report.significance import Significance
from medheb.report.summary import versions
from medheb.report.tables import (
    families_in_order,
    family_table,
    includes_chance,
    leaderboard,
    missing_table,
    models_in_order,
    task_table,
    tasks_in_order,
)

HERE = Path(__file__).parent
BOARD_METRICS = ("hit@1", "hit@5", "mrr@5")


@dataclass(frozen=True)
class Number:
    """One metric of one cell or mean, ready to be written and drawn. All shares from 0 to 1."""

    value: float
    low: float
    high: float
    worst: float
    chance: float


@dataclass(frozen=True)
class Made:
    """Everything that was computed for the page."""

    galleries: list[TaskGallery]
    published: Published
    paper: list[PaperTable]
    graded: Graded
    found: Significance
    figures: dict[str, Drawn | None]
    banner: str = ""


def render(results: Results, made: Made) -> str:
    """The whole page as text.

    Everything that comes from data is escaped by the template engine; only the figures, the style
    sheet and the script, which this package writes itself, are inserted as they are. A content security
    policy forbids any other script and any request.
    """
    environment = _environment()
    script = _without_blank_lines((HERE / "page.js").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("template.html.j2").render(
        **_content(results, made),
        # The package's own files and figures; figure texts were escaped when the SVG was written.
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        script_digest=digest,
        heat_map=Markup(_page_svg(made, "heat-map")),  # noqa: S704
        family_profile=Markup(_page_svg(made, "family-profile")),  # noqa: S704
    )
    return _without_blank_lines(page) + "\n"


def _without_blank_lines(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip())


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        percent=words.percent,
        interval=words.interval,
        count=words.count,
        position=words.position,
        sort_key=words.sort_key,
        plural=words.plural,
        signed=words.signed,
        span=words.span,
        p_value=words.p_value,
        hours=words.hours,
        safe_link=safe_link,
        shown_spread=shown_spread,
    )
    return environment


def render_gallery(results: Results, part: TaskGallery, banner: str = "") -> str:
    """All examples of one task as a page of its own, for the folder beside the report."""
    page = (
        _environment()
        .get_template("gallery.html.j2")
        .render(
            part=part,
            banner=banner,
            title=results.run.models[part.model].title if part.model else "no model",
            style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704 - the package's own file
        )
    )
    return _without_blank_lines(page) + "\n"


def _page_svg(made: Made, name: str) -> str:
    drawn = made.figures[name]
    return drawn.page if drawn else ""


def _content(results: Results, made: Made) -> dict[str, Any]:
    run = results.run
    board = _board(results)
    return {
        "run": run,
        "banner": made.banner,
        "board_metrics": BOARD_METRICS,
        "further_metrics": {name: METRIC_LABELS[name] for name in METRICS if name != "hit@1"},
        "family_titles": FAMILY_TITLES,
        "families": families_in_order(results),
        "level": f"{100 * run.config.evaluate.confidence:g}",
        "board": board,
        "best": next((row for row in board if row["rank"] == "1"), None),
        "family_rows": _family_rows(results),
        "cells": _cells(results),
        "galleries": made.galleries,
        **significance_section(results, made.found),
        "paper": paper_section(made.paper),
        "graded": graded_section(made.graded, models_in_order(results)),
        "has_published": bool(made.published.values),
        "figures": figures_section(results, made.published, made.figures),
        "costs": costs(results),
        "machine": f"{platform.system()} {platform.machine()}, {platform.python_implementation()}",
        "projector": run.config.drr.chosen(run.config.protocol),
        "quality": index_quality(results),
        "titles": {key: model.title for key, model in run.models.items()},
        "number_of": _number_of(results),
        "result_notes": result_notes(results),
        "source_notes": source_notes(results),
        "model_notes": model_notes(results),
        "task_notes": task_notes(results),
        "missing": missing_table(results).to_dict("records"),
        "missing_cells": len(results.missing),
        "sources": list(results.sources.values()),
        "weights": _weights(results),
        "states": _states(list(results.sources.values())),
        "switches": _switches(run.protocol),
        "versions": {name: version or "not installed" for name, version in versions().items()},
        "fingerprints": {model: _first(results, "fingerprint", model=model) for model in run.models},
        "task_roots": {
            task: (_first(results, "task_digest", task=task), _first(results, "data_root", task=task))
            for task in tasks_in_order(results)
        },
    }


def _number(row: pd.Series, name: str) -> Number:
    return Number(*(float(row[f"{name}_{part}"]) for part in ("value", "low", "high", "worst", "chance")))


def _board(results: Results) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for _, row in leaderboard(results).iterrows():
        rows.append(
            {
                "rank": words.NONE if pd.isna(row["rank"]) else str(row["rank"]),
                "id": row["model"],
                "title": row["title"],
                "canary": row["canary"],
                "comparable": row["comparable"],
                "tasks": row["tasks"],
                "tasks_expected": row["tasks_expected"],
                "families": row["families"],
                "families_expected": row["families_expected"],
                "by_family": {metric: _number(row, f"{metric}_families") for metric in METRICS},
                "by_task": {metric: _number(row, f"{metric}_tasks") for metric in METRICS},
            }
        )
    return rows


def _family_rows(results: Results) -> list[dict[str, Any]]:
    table = family_table(results)
    rows: list[dict[str, Any]] = []
    for model in leaderboard(results)["model"]:
        own = table[table["model"] == model]
        rows.append(
            {
                "title": results.run.models[model].title,
                "canary": results.run.models[model].canary,
                "cells": [
                    {"number": _number(row, "hit@1"), "tasks": row["tasks"], "expected": row["tasks_expected"]}
                    for _, row in own.iterrows()
                ],
            }
        )
    return rows


def _cells(results: Results) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for _, row in task_table(results).iterrows():
        hit = _number(row, "hit@1")
        rows.append(
            {
                **{key: row[key] for key in ("task", "family", "form", "split", "pool", "model", "canary", "state")},
                **{key: row[key] for key in ("queries", "candidates", "tied_fraction", "reason")},
                "at_chance": not row["canary"] and includes_chance(hit.low, hit.high, hit.chance),
                "numbers": {metric: _number(row, metric) for metric in METRICS},
            }
        )
    return rows


def _number_of(results: Results) -> dict[tuple[str, str], Number]:
    """Hit@1 of every cell that has a score."""
    return {
        key: Number(**cell.score.metrics["hit@1"].model_dump())
        for key, cell in results.cells.items()
        if cell.score is not None
    }


def _states(sources: list[SourceFacts]) -> dict[str, int]:
    return {state: sum(facts.status.state == state for facts in sources) for state in ("ok", "blocked", "failed")}


def _switches(protocol: Protocol) -> list[tuple[str, str, str]]:
    """Name, value and meaning of every switch of the protocol."""
    switches: list[tuple[str, str, str]] = []
    for name, field in type(protocol).model_fields.items():
        if name not in {"name", "title"}:
            value = getattr(protocol, name)
            words_of = {"None": "not set", "True": "on", "False": "off"}
            shown = words_of.get(str(value), str(value))
            switches.append((name, shown, field.description or ""))
    return switches


def _weights(results: Results) -> list[dict[str, Any]]:
    """Packages, repositories and folders that model weights come from, each once, with the models that use them.

    Where a user's own folder lies is not said.
    """
    found: dict[str, dict[str, Any]] = {}
    for model in results.run.models.values():
        parts = [(f"{part.host.name} {part.host.version}", part.licence) for part in model.weights()]
        for slot, folder in model.folders().items():
            if isinstance(folder, HubWeights):
                parts.append((f"{folder.repository} {_commit(results, model.id, slot)}".rstrip(), folder.licence))
            elif folder.licence:
                parts.append((f"own folder, {model.title}", folder.licence))
        for source, licence in parts:
            entry = found.setdefault(source, {"source": source, "licence": licence, "models": []})
            entry["models"].append(model.title)
    return [found[key] for key in sorted(found)]


def _commit(results: Results, model: str, slot: str) -> str:
    """Start of the commit that was fetched; empty if nothing was."""
    try:
        record = read_found(results.run.layout, model).folders.get(slot)
    except MedhebError:
        return ""
    return record.revision[:8] if record and record.revision else ""


def _first(results: Results, field: str, model: str | None = None, task: str | None = None) -> str:
    """A field that collecting has checked to be the same in all scores of a model or task."""
    for cell in results.cells.values():
        if cell.score and model in {None, cell.model.id} and task in {None, cell.task.task}:
            return str(getattr(cell.score, field))
    return ""
