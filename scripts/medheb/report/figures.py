"""Static figures as SVG text that stands in a page: text stays text and takes the page's colours."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib
import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from medheb.evaluate.score import Score
from medheb.manifest.model import Model
from medheb.manifest.task import FAMILY_TITLES
from medheb.report.collect import Results
from medheb.report.tables import families_in_order, includes_chance, mean_of, models_in_order, tasks_in_order

HIT = "hit@1"
AT_CHANCE_MARK = "\u2248"  # almost equal
# Stand-ins that become the page's own colours, so that one SVG serves light, dark and print.
INK, MUTED, LINE, PAPER = "#010203", "#040506", "#070809", "#0a0b0c"
PAGE_COLOURS = {
    INK: "currentColor",
    MUTED: "var(--muted, #59636e)",
    LINE: "var(--line, #d5dae0)",
    PAPER: "var(--paper, #ffffff)",
}
# Okabe and Ito's colours without black and yellow; shapes repeat the distinction for print.
# The page may name lighter ones for a dark screen.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHAPES = ("o", "s", "D", "^", "v", "P", "X")
PAGE_COLOURS |= {colour: f"var(--series-{place}, {colour})" for place, colour in enumerate(COLOURS, start=1)}
CANARY_SHAPES = ("x", "+", "1", "2")
BELOW_CHANCE, AT_CHANCE, RIGHT = "#b35806", "#f7f7f7", "#08306b"
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "text.parse_math": False,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": INK,
}


def heat_map(results: Results) -> str:
    """SVG: one row a task, one column a model; number = Hit@1 in %, colour = share of the way from chance to 1.

    A real model's number is marked where its interval includes chance. Canaries stay grey: what they
    score is noise, and with few queries a 0.0 of theirs would be the loudest colour of all.
    """
    models = models_in_order(results)
    lines: list[str | None] = []  # None stands for a family's heading
    for family in families_in_order(results):
        lines += [None, *(task for task in tasks_in_order(results) if results.run.tasks[task].family == family)]
    titles = [_wrapped(model.title, 13 if len(models) < 9 else 10) for model in models]
    head = 0.17 * max(title.count("\n") + 1 for title in titles) + 0.25
    label_inches = min(4.2, 0.6 + 0.068 * max((len(task) for task in lines if task), default=10))
    # As wide as the page at most, as long as the numbers stay legible.
    cell_width, cell_height = min(1.06, max(0.6, (11.9 - label_inches) / (len(models) + 0.75))), 0.29
    width = label_inches + cell_width * (len(models) + 0.75) + 0.1
    height = head + cell_height * len(lines) + 0.7
    with _style("heat-map"):
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes(
            (label_inches / width, 0.7 / height, 1 - (label_inches + 0.1) / width, 1 - (head + 0.7) / height)
        )
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
                _draw_cell(axes, column, row, score, canary=models[column].canary)
        _draw_scale(figure, width, height, label_inches)
        return _svg_text(figure, "heat-map", "Hit@1 of every model on every task, coloured by its lift over chance")


def _draw_cell(axes: matplotlib.axes.Axes, column: int, row: int, score: Score | None, canary: bool) -> None:
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
    if canary:
        axes.add_patch(matplotlib.patches.Rectangle(corner, 0.94, 0.9, facecolor=LINE, alpha=0.5, linewidth=0))
        axes.text(column + 0.5, row + 0.5, number, ha="center", va="center", color=MUTED)
        return
    colour = _colours()((lift(metric.value, metric.chance) + 1) / 2)
    ink = _readable_on(colour)
    axes.add_patch(matplotlib.patches.Rectangle(corner, 0.94, 0.9, facecolor=colour, linewidth=0))
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


def _draw_scale(figure: Figure, width: float, height: float, left: float) -> None:
    bar = figure.add_axes((left / width, 0.36 / height, min(3.2, width - left - 0.2) / width, 0.11 / height))
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


def family_profile(results: Results) -> str:
    """SVG: Hit@1 by family, one marker a model with its interval, a tick where chance lies."""
    models = models_in_order(results)
    families = families_in_order(results)
    lane = 0.15
    band = lane * len(models) + 0.2
    names = [*(_shortened(model.title, 70) for model in models), "Chance"]
    columns = min(len(names), max(1, int(11 / (0.75 + 0.068 * max(map(len, names))))))
    top, bottom = 0.2 + 0.24 * -(-len(names) // columns), 0.45
    width, left = 11.4, 1.75
    height = top + bottom + band * len(families)
    with _style("family-profile"):
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((left / width, bottom / height, 1 - (left + 0.15) / width, 1 - (top + bottom) / height))
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
                shape, colour = _mark(models, place)
                axes.plot([100 * mean.low, 100 * mean.high], [y, y], color=colour, linewidth=1.5, alpha=0.75)
                axes.plot([100 * mean.value], [y], marker=shape, color=colour, markersize=5.5, linestyle="none")
            chance = _chance(results, family)
            if chance is not None:
                axes.plot(
                    [100 * chance] * 2,
                    [base + 0.04, base + band - 0.04],
                    color=INK,
                    linewidth=1.3,
                    linestyle=(0, (2.2, 1.6)),
                )
        axes.set_yticks([band * (index + 0.5) for index in range(len(families))])
        axes.set_yticklabels([FAMILY_TITLES[family] for family in families], fontsize=9.5)
        axes.set_xticks(np.arange(0, 101, 20), [f"{tick}" for tick in range(0, 101, 20)])
        axes.set_xlabel("Hit@1 in %, mean over the family's tasks")
        axes.tick_params(length=0)
        axes.grid(axis="x", color=LINE, linewidth=0.7)
        axes.set_axisbelow(True)
        for spine in axes.spines.values():
            spine.set_visible(False)
        entries = [
            Line2D([], [], marker=shape, color=colour, markersize=5.5, linewidth=1.5, label=name)
            for name, (shape, colour) in zip(
                names, (_mark(models, place) for place in range(len(models))), strict=False
            )
        ]
        entries.append(Line2D([], [], color=INK, linewidth=1.3, linestyle=(0, (2.2, 1.6)), label="Chance"))
        figure.legend(
            handles=entries,
            loc="upper left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            handlelength=1.8,
            columnspacing=1.6,
        )
        return _svg_text(figure, "family-profile", "Hit@1 of every model by task family, with intervals and chance")


def _mark(models: list[Model], place: int) -> tuple[str, str]:
    model = models[place]
    same_kind = [other for other in models[:place] if other.canary == model.canary]
    number = len(same_kind)
    if model.canary:
        return CANARY_SHAPES[number % len(CANARY_SHAPES)], MUTED
    return SHAPES[number % len(SHAPES)], COLOURS[number % len(COLOURS)]


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


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "\u2026"


def _wrapped(title: str, width: int) -> str:
    lines = textwrap.wrap(title, width=width, max_lines=6, placeholder=" \u2026") or [title[:width]]
    return "\n".join(lines)


@contextmanager
def _style(name: str) -> Iterator[None]:
    # A fixed salt makes the ids inside the SVG, and so its bytes, the same on every run.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        yield


def _svg_text(figure: Figure, name: str, description: str) -> str:
    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    # Its style element would apply to the whole page; the page's own style sheet says the same for figures.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    # Several figures stand in one page: make their ids distinct.
    svg = re.sub(r'(\bid="|url\(#|href="#)(?!task-)', rf"\g<1>{name}-", svg)
    for stand_in, colour in PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    # The page sets the typeface; sizes stay.
    svg = re.sub(r"font: ([^;\"]*?)(\d[\d.]*px)[^;\"]*", _font, svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)


def _font(match: re.Match[str]) -> str:
    weight = "700" if "700" in match.group(1) or "bold" in match.group(1) else "400"
    return f"font-size: {match.group(2)}; font-weight: {weight}"
