"""Figures about the tasks: how hard they are, by anatomy and evidence form, by length of the text to be found."""

from __future__ import annotations

import numpy as np
import pandas as pd

from medheb.manifest.task import FAMILY_TITLES
from medheb.report.analysis import BUCKETS, HIT, by_domain_and_form, difficulty, target_lengths
from medheb.report.collect import Results
from medheb.report.figure_style import (
    COLOURS,
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
)
from medheb.report.published import Published
from medheb.report.tables import models_in_order

WIDTH = 11.4
FAMILY_MARKS = {family: (shape, COLOURS[n % len(COLOURS)]) for n, (family, shape) in enumerate(
    zip(FAMILY_TITLES, ("o", "s", "D", "^", "v", "P", "X", "*"), strict=True))}  # fmt: skip


def difficulty_buckets(results: Results, published: Published) -> Drawn | None:
    """Tasks in the order of the baselines' mean Hit@1, with the paper's four buckets (figure 4A)."""
    table = difficulty(results, published)
    if table.empty:
        return None
    with style("difficulty"):
        canvas = Canvas("difficulty", WIDTH, 4.2)
        axes = canvas.axes(0.7, 0.5, 0.2, 0.75)
        start = 0
        for number, (name, low, high) in enumerate(BUCKETS):
            own = table[table["bucket"] == name]
            if own.empty:
                continue
            end = start + len(own)
            if number % 2 == 0:
                axes.axvspan(start - 0.5, end - 0.5, facecolor=LINE, alpha=0.3, linewidth=0)
            limits = (
                f"under {high:g} %"
                if low == 0
                else f"{low:g} % and more"
                if high == 100
                else f"{low:g}\u2013{high:g} %"
            )
            text = f"{name}\n{limits}\nn = {len(own)}, SD {own['std'].mean():.1f}"
            axes.text(
                (start + end - 1) / 2, 1.02, text, transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                fontsize=8 if len(own) / len(table) > 0.09 else 6.5, color=INK,
            )  # fmt: skip
            start = end
        for place, row in enumerate(table.itertuples()):
            shape, colour = FAMILY_MARKS[row.family]
            (bar,) = axes.plot(
                [place, place], [row.mean - row.std, row.mean + row.std], color=colour, linewidth=1.2, alpha=0.6
            )
            (dot,) = axes.plot([place], [row.mean], shape, color=colour, markersize=5)
            tip = f"{row.task} ({FAMILY_TITLES[row.family]}): {row.mean:.1f} %, SD {row.std:.1f}, {row.models} models"
            canvas.mark(bar, tip, row.family)
            canvas.mark(dot, tip, row.family)
        axes.set_xlim(-0.7, len(table) - 0.3)
        axes.set_ylim(min(-1.0, axes.get_ylim()[0]), 101)
        axes.set_xticks([])
        axes.set_ylabel("Mean Hit@1 of the baselines in %")
        axes.set_xlabel("Tasks, the hardest first")
        bare(axes, "y")
        for family in dict.fromkeys(table["family"]):
            shape, colour = FAMILY_MARKS[family]
            axes.plot([], [], shape, color=colour, markersize=5, label=FAMILY_TITLES[family])
        axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=8.5)
        return canvas.done("Difficulty of the tasks by the mean Hit@1 of the baselines")


def anatomy_and_form(results: Results) -> Drawn | None:
    """Mean Hit@1 of every model by anatomical domain and evidence form (paper figure 5)."""
    table = by_domain_and_form(results)
    table = table[~table["canary"] & (table["tasks"] > 0)]
    if table.empty:
        return None
    everyone = models_in_order(results)
    held = set(table["model"])
    entries = [(line, key) for line, key in legend_entries(everyone) if key in held]
    columns = legend_columns([str(line.get_label()) for line, _ in entries])
    means = table.groupby(["kind", "group"])["mean"].mean()
    groups = [key for kind in ("domain", "form") for key in means[[kind]].sort_values(ascending=False).index]
    top = 0.3 + 0.24 * -(-len(entries) // columns)
    with style("anatomy-form"):
        canvas = Canvas("anatomy-form", WIDTH, top + 0.55 + 0.36 * (len(groups) + 0.6))
        axes = canvas.axes(2.1, 0.5, 0.2, top)
        places: list[float] = []
        for number, (kind, group) in enumerate(groups):
            y = number + (0.6 if kind == "form" else 0.0)
            places.append(y)
            own = table[(table["kind"] == kind) & (table["group"] == group)]
            axes.plot([own["mean"].min(), own["mean"].max()], [y, y], color=LINE, linewidth=4, solid_capstyle="round")
            axes.plot(
                [own["chance"].mean()] * 2, [y - 0.32, y + 0.32], color=INK, linewidth=1.2, linestyle=(0, (2, 1.5))
            )
            for row in own.itertuples():
                place = next(n for n, model in enumerate(everyone) if model.id == row.model)
                shape, colour = model_mark(everyone, place)
                (dot,) = axes.plot([row.mean], [y], shape, color=colour, markersize=6.5)
                part = "" if row.tasks == row.tasks_expected else f" of {row.tasks_expected}"
                title = everyone[place].title
                canvas.mark(dot, f"{title}, {group}: {row.mean:.1f} % over {row.tasks}{part} tasks", row.model)
        axes.set_yticks(places, [f"{group} ({_tasks(table, kind, group)})" for kind, group in groups])
        axes.set_ylim(places[-1] + 0.6, -0.6)
        axes.set_xlim(-1, 101)
        axes.set_xlabel("Hit@1 in %, mean over the tasks (their number in brackets); upright dashes: chance")
        bare(axes, "x")
        canvas.legend(entries, columns)
        return canvas.done("Hit@1 by anatomical domain and evidence form")


def _tasks(table: pd.DataFrame, kind: str, group: str) -> int:
    return int(table[(table["kind"] == kind) & (table["group"] == group)]["tasks_expected"].max())


def target_length(results: Results) -> Drawn | None:
    """Hit@1 of the best models against the mean length of the text to be found (paper figure 8)."""
    lengths = target_lengths(results)
    models = [model for model in models_in_order(results) if not model.canary and results.scores(model.id)][:3]
    if lengths.empty or not models:
        return None
    everyone = models_in_order(results)
    with style("target-length"):
        canvas = Canvas("target-length", WIDTH, 4.3)
        axes = canvas.axes(0.7, 0.55, 0.2, 0.85)
        for model in models:
            shape, colour = model_mark(everyone, everyone.index(model))
            points = [
                (row.characters, 100 * score.metrics[HIT].value, row)
                for row in lengths.itertuples()
                if (score := results.score(model.id, row.task))
            ]
            for x, y, row in points:
                (dot,) = axes.plot([x], [y], shape, color=colour, markersize=5.5, alpha=0.85)
                canvas.mark(dot, f"{model.title}, {row.task} ({row.group}, {x:.0f} characters): {y:.1f} %", model.id)
            means = [
                (np.exp(np.mean(np.log(np.maximum([x for x, _, row in points if row.group == group], 1)))),
                 np.mean([y for _, y, row in points if row.group == group]))
                for group in dict.fromkeys(lengths["group"])
                if any(row.group == group for _, _, row in points)
            ]  # fmt: skip
            means.sort()
            (line,) = axes.plot([x for x, _ in means], [y for _, y in means], color=colour, linewidth=1.6, alpha=0.7)
            canvas.mark(line, f"{model.title}: means of the groups", model.id)
        axes.set_xscale("log")
        # From all lengths: around a single point matplotlib takes no width, and cannot draw what lies beside it.
        reach = np.log(np.maximum(lengths["characters"], 1))
        low, high = np.exp(reach.min() - (edge := max(0.05 * np.ptp(reach), 0.1))), np.exp(reach.max() + edge)
        axes.set_xlim(low, high)
        ticks = [tick for tick in (3, 10, 30, 100, 300, 1000, 3000, 10000) if low <= tick <= high]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_ylim(-1, 101)
        axes.set_xlabel(
            "Mean length of the right text in characters (log); lines join the means of labels, answers, long texts"
        )
        axes.set_ylabel("Hit@1 in %")
        for number, (group, own) in enumerate(lengths.groupby("group", sort=False)):
            middle = float(np.exp(np.log(np.maximum(own["characters"], 1)).mean()))
            axes.text(
                middle, 1.01 + 0.05 * number, f"{group} ({len(own)})",
                transform=axes.get_xaxis_transform(), ha="center", va="bottom",
                color=MUTED, fontsize=8.5,
            )  # fmt: skip
        bare(axes)
        entries = [(line, key) for line, key in legend_entries(everyone) if key in {model.id for model in models}]
        canvas.legend(entries, legend_columns([str(line.get_label()) for line, _ in entries]))
        return canvas.done("Hit@1 against the length of the text to be found")
