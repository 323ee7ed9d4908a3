"""The two overviews: every model on every task, and every model by family."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.lines import Line2D

from medheb.evaluate.score import Score
from medheb.manifest.model import Model
from medheb.manifest.task import FAMILY_TITLES
from medheb.report.collect import Results
from medheb.report.figure_style import (
    INK,
    LINE,
    MUTED,
    Canvas,
    Drawn,
    bare,
    legend_columns,
    legend_entries,
    model_mark,
    style,
    wrapped,
)
from medheb.report.tables import families_in_order, includes_chance, mean_of, models_in_order, tasks_in_order

HIT = "hit@1"
AT_CHANCE_MARK = "\u2248"  # almost equal
BELOW_CHANCE, AT_CHANCE, RIGHT = "#b35806", "#f7f7f7", "#08306b"
DASHED: dict[str, Any] = {"linewidth": 1.3, "linestyle": (0, (2.2, 1.6))}


def heat_map(results: Results) -> Drawn:
    """SVG: one row a task, one column a model; number = Hit@1 in %, colour = share of the way from chance to 1.

    A real model's number is marked where its interval includes chance. Canaries stay grey: what they
    score is noise, and with few queries a 0.0 of theirs would be the loudest colour of all.
    """
    models = models_in_order(results)
    lines: list[str | None] = []  # None stands for a family's heading
    for family in families_in_order(results):
        lines += [None, *(task for task in tasks_in_order(results) if results.run.tasks[task].family == family)]
    titles = [wrapped(model.title, 13 if len(models) < 9 else 10) for model in models]
    head = 0.17 * max(title.count("\n") + 1 for title in titles) + 0.25
    label_inches = min(4.2, 0.6 + 0.068 * max((len(task) for task in lines if task), default=10))
    # As wide as the page at most, as long as the numbers stay legible.
    cell_width, cell_height = min(1.06, max(0.6, (11.9 - label_inches) / (len(models) + 0.75))), 0.29
    width = label_inches + cell_width * (len(models) + 0.75) + 0.1
    height = head + cell_height * len(lines) + 0.7
    with style("heat-map"):
        canvas = Canvas("heat-map", width, height)
        axes = canvas.axes(label_inches, 0.7, 0.1, head)
        axes.set_xlim(-0.75, len(models))
        axes.set_ylim(len(lines), 0)
        axes.axis("off")
        for column, title in enumerate(titles):
            muted = models[column].canary
            axes.text(column + 0.5, -0.15, title, ha="center", va="bottom", color=MUTED if muted else INK, fontsize=8.5)
        axes.text(-0.38, -0.15, "Chance", ha="center", va="bottom", color=MUTED, fontsize=8.5)
        families = iter(families_in_order(results))
        edge = -0.75 - (label_inches - 0.05) / cell_width
        for row, task in enumerate(lines):
            if task is None:
                title = FAMILY_TITLES[next(families)]
                axes.text(edge, row + 0.62, title, va="center", fontweight="bold", fontsize=9.5)
                continue
            label = axes.text(edge + 0.12, row + 0.5, task, va="center")
            label.set_url(f"#task-{task}")
            scores = [results.score(model.id, task) for model in models]
            chance = next((score.metrics[HIT].chance for score in scores if score), None)
            if chance is not None:
                axes.text(-0.38, row + 0.5, f"{100 * chance:.1f}", ha="center", va="center", color=MUTED)
            for column, score in enumerate(scores):
                _draw_cell(canvas, axes, column, row, score, models[column])
        _draw_scale(canvas, label_inches)
        return canvas.done("Hit@1 of every model on every task, coloured by its lift over chance")


def _draw_cell(
    canvas: Canvas, axes: matplotlib.axes.Axes, column: int, row: int, score: Score | None, model: Model
) -> None:
    corner = (column + 0.03, row + 0.05)
    if score is None:
        axes.add_patch(
            matplotlib.patches.Rectangle(
                corner, 0.94, 0.9, facecolor="none", edgecolor=LINE, hatch="////", linewidth=0.8
            )
        )
        axes.text(column + 0.5, row + 0.5, "missing", ha="center", va="center", color=MUTED, fontsize=7.5)
        return
    metric = score.metrics[HIT]
    number = f"{100 * metric.value:.1f}"
    tip = f"{model.title}, {score.task}: {number} %, {100 * metric.low:.1f} to {100 * metric.high:.1f}"
    if model.canary:
        axes.add_patch(matplotlib.patches.Rectangle(corner, 0.94, 0.9, facecolor=LINE, alpha=0.5, linewidth=0))
        axes.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=MUTED)
        return
    colour = _colours()((lift(metric.value, metric.chance) + 1) / 2)
    ink = _readable_on(colour)
    patch = matplotlib.patches.Rectangle(corner, 0.94, 0.9, facecolor=colour, linewidth=0)
    canvas.mark(axes.add_patch(patch), tip)
    axes.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=ink)
    if includes_chance(metric.low, metric.high, metric.chance):
        axes.text(column + 0.94, row + 0.5, AT_CHANCE_MARK, ha="right", va="center", color=ink, fontsize=8)


def lift(value: float, chance: float) -> float:
    """Where ``value`` lies between chance (0) and perfect (1); between chance and nothing it runs from 0 to -1."""
    if value >= chance:
        return (value - chance) / (1 - chance) if chance < 1 else 0.0
    return (value - chance) / chance


def _readable_on(colour: tuple[float, ...]) -> str:
    """White or near-black, whichever stands out more (relative luminance as in WCAG 2)."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.058 else "#111820"


def _colours() -> Colormap:
    steps = [BELOW_CHANCE, "#fdb863", AT_CHANCE, "#6baed6", RIGHT]
    return LinearSegmentedColormap.from_list("lift", list(zip((0, 0.25, 0.5, 0.72, 1), steps, strict=True)), N=257)


def _draw_scale(canvas: Canvas, left: float) -> None:
    width, height = canvas.width, canvas.height
    bar = canvas.figure.add_axes((left / width, 0.36 / height, min(3.2, width - left - 0.2) / width, 0.11 / height))
    steps = 64
    for step in range(steps):
        bar.add_patch(
            matplotlib.patches.Rectangle(
                (step / steps, 0), 1 - step / steps, 1, facecolor=_colours()((step + 0.5) / steps), linewidth=0
            )
        )
    bar.set_xlim(0, 1)
    bar.set_ylim(0, 1)
    bar.set_yticks([])
    bar.set_xticks([0, 0.5, 1], ["never right", "chance", "always right"], fontsize=8)
    bar.tick_params(length=0, pad=4)
    for spine in bar.spines.values():
        spine.set_visible(False)


def family_profile(results: Results) -> Drawn:
    """SVG: Hit@1 by family, one marker a model with its interval, a tick where chance lies."""
    models = models_in_order(results)
    families = families_in_order(results)
    lane = 0.15
    band = lane * len(models) + 0.2
    entries = legend_entries(models, linewidth=1.5)
    names = [*(str(line.get_label()) for line, _ in entries), "Chance"]
    columns = legend_columns(names)
    top, bottom = 0.2 + 0.24 * -(-len(names) // columns), 0.45
    with style("family-profile"):
        canvas = Canvas("family-profile", 11.4, top + bottom + band * len(families))
        axes = canvas.axes(1.75, bottom, 0.15, top)
        axes.set_xlim(-1.5, 101.5)
        axes.set_ylim(band * len(families), 0)
        for index, family in enumerate(families):
            base = index * band
            if index % 2 == 0:
                axes.axhspan(base, base + band, facecolor=LINE, alpha=0.28, linewidth=0)
            for place, model in enumerate(models):
                scores = [score for score in results.scores(model.id) if score.family == family]
                if not scores:
                    continue
                mean = mean_of(scores, HIT, "tasks")
                y = base + 0.1 + lane * (place + 0.5)
                shape, colour = model_mark(models, place)
                tip = f"{model.title}, {FAMILY_TITLES[family]}: {100 * mean.value:.1f} % over {len(scores)} tasks"
                (line,) = axes.plot([100 * mean.low, 100 * mean.high], [y, y], color=colour, linewidth=1.5, alpha=0.75)
                (dot,) = axes.plot(
                    [100 * mean.value], [y], marker=shape, color=colour, markersize=5.5, linestyle="none"
                )
                canvas.mark(line, tip, model.id)
                canvas.mark(dot, tip, model.id)
            chance = _chance(results, family)
            if chance is not None:
                axes.plot([100 * chance] * 2, [base + 0.04, base + band - 0.04], color=INK, **DASHED)
        axes.set_yticks([band * (index + 0.5) for index in range(len(families))])
        axes.set_yticklabels([FAMILY_TITLES[family] for family in families], fontsize=9.5)
        axes.set_xticks(np.arange(0, 101, 20), [f"{tick}" for tick in range(0, 101, 20)])
        axes.set_xlabel("Hit@1 in %, mean over the family's tasks")
        bare(axes, "x")
        canvas.legend([*entries, (Line2D([], [], color=INK, label="Chance", **DASHED), "")], columns)
        return canvas.done("Hit@1 of every model by task family, with intervals and chance")


def _chance(results: Results, family: str) -> float | None:
    """Chance over the family's tasks that any model holds."""
    found: list[Score] = []
    for task in results.run.tasks.values():
        if task.family == family:
            scores = (results.score(model, task.task) for model in results.run.models)
            first = next((score for score in scores if score), None)
            if first:
                found.append(first)
    return mean_of(found, HIT, "tasks").chance if found else None
