"""Figures of balance: accuracy against CV, established against underexplored relations, one model against another."""

from __future__ import annotations

import numpy as np

from medheb.manifest.task import FAMILY_TITLES
from medheb.report.analysis import HIT, balance_table, pair_to_compare, score_pairs, transfer
from medheb.report.collect import Results
from medheb.report.figure_style import (
    COLOURS,
    INK,
    LINE,
    MUTED,
    SHAPES,
    Canvas,
    Drawn,
    bare,
    legend_columns,
    legend_entries,
    model_mark,
    shortened,
    style,
)
from medheb.report.tables import families_in_order, models_in_order

WIDTH = 7.6


def accuracy_against_cv(results: Results) -> Drawn | None:
    """Mean family Hit@1 against the coefficient of variation (paper figure 6C); None without two families."""
    models = [model for model in models_in_order(results) if not model.canary]
    table = balance_table(results).set_index("model")
    held = [model for model in models if table.loc[model.id, "families"] > 1 and table.loc[model.id, "cv"] >= 0]
    if not held:
        return None
    everyone = models_in_order(results)
    entries = [(line, key) for line, key in legend_entries(everyone) if key in {model.id for model in held}]
    columns = legend_columns([str(line.get_label()) for line, _ in entries], WIDTH - 0.4)
    top = 0.25 + 0.24 * -(-len(entries) // columns)
    with style("accuracy-cv"):
        canvas = Canvas("accuracy-cv", WIDTH, 3.9 + top)
        axes = canvas.axes(0.75, 0.55, 0.2, top)
        for model in held:
            mean, cv = float(table.loc[model.id, "mean"]), float(table.loc[model.id, "cv"])
            shape, colour = model_mark(everyone, everyone.index(model))
            (dot,) = axes.plot([mean], [cv], marker=shape, color=colour, markersize=9, linestyle="none")
            families = int(table.loc[model.id, "families"])
            canvas.mark(dot, f"{model.title}: mean {mean:.1f} %, CV {cv:.3f} over {families} families", model.id)
        axes.set_xlim(0, 1.08 * max(axes.get_xlim()[1], 1.0))
        axes.set_ylim(0, 1.08 * max(axes.get_ylim()[1], 0.1))
        axes.set_xlabel("Mean of the family means, Hit@1 in % (right is better)")
        axes.set_ylabel("Coefficient of variation (down is more even)")
        bare(axes)
        canvas.legend(entries, columns)
        return canvas.done("Accuracy against balance: mean Hit@1 and its coefficient of variation over the families")


def established_against_underexplored(results: Results) -> Drawn | None:
    """One line a model from underexplored to established relations (paper figure 4B); None if a side is missing."""
    table = transfer(results).dropna(subset=["gap"])
    table = table[~table["canary"]]
    if table.empty:
        return None
    titles = results.run.models
    with style("transfer"):
        canvas = Canvas("transfer", WIDTH, 0.95 + 0.34 * len(table))
        axes = canvas.axes(2.3, 0.5, 0.7, 0.35)
        for row, entry in enumerate(table.itertuples()):
            title = titles[entry.model].title
            ends = [entry.underexplored, entry.established]
            tip = f"{title}: established {ends[1]:.1f} %, underexplored {ends[0]:.1f} %, gap {entry.gap:.1f} points"
            (line,) = axes.plot(ends, [row, row], color=LINE, linewidth=3, solid_capstyle="round", zorder=1)
            (hollow,) = axes.plot([ends[0]], [row], "o", color=COLOURS[1], markersize=8, zorder=2)
            (full,) = axes.plot([ends[1]], [row], "s", color=COLOURS[0], markersize=7.5, zorder=2)
            for artist in (line, hollow, full):
                canvas.mark(artist, tip, entry.model)
            axes.text(1.01, row, f"{entry.gap:+.1f}", transform=axes.get_yaxis_transform(), va="center", color=MUTED)
        axes.text(1.01, -0.85, "Gap", transform=axes.get_yaxis_transform(), va="center", color=MUTED)
        axes.set_ylim(len(table) - 0.4, -0.6)
        axes.set_xlim(left=min(0.0, float(table["underexplored"].min())))
        axes.set_yticks(range(len(table)), [shortened(titles[key].title, 34) for key in table["model"]])
        axes.set_xlabel("Hit@1 in %, mean of family means")
        bare(axes, "x")
        axes.plot([], [], "o", color=COLOURS[1], markersize=8, label="Modality-bridging, region-level")
        axes.plot([], [], "s", color=COLOURS[0], markersize=7.5, label="Established relations")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8.5, borderaxespad=0.2)
        return canvas.done("Hit@1 on established against underexplored relations")


def model_against_model(results: Results) -> Drawn | None:
    """Per-task Hit@1 of two sizes of a model, or of the best two (paper figure 6B); None without two models."""
    pair = pair_to_compare(results)
    if pair is None:
        return None
    first, second = pair
    scores = score_pairs(results, first.id, second.id)
    if not scores:
        return None
    families = families_in_order(results)
    with style("pair"):
        canvas = Canvas("pair", WIDTH, 5.9)
        axes = canvas.axes(0.75, 0.55, 2.05, 0.2)
        axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        for a, b in scores:
            place = families.index(a.family)
            x, y = 100 * a.metrics[HIT].value, 100 * b.metrics[HIT].value
            (dot,) = axes.plot(
                [x], [y], SHAPES[place % len(SHAPES)], color=COLOURS[place % len(COLOURS)], markersize=6,
                fillstyle="none" if a.split == "heldout" else "full", linestyle="none",
            )  # fmt: skip
            held = ", held-out source" if a.split == "heldout" else ""
            canvas.mark(dot, f"{a.task} ({FAMILY_TITLES[a.family]}{held}): {x:.1f} % and {y:.1f} %", a.family)
        limits = (-2.0, 102.0)
        axes.set_xlim(limits)
        axes.set_ylim(limits)
        axes.set_xlabel(f"{shortened(first.title, 50)}, Hit@1 in %")
        axes.set_ylabel(f"{shortened(second.title, 50)}, Hit@1 in %")
        bare(axes)
        axes.set_xticks(np.arange(0, 101, 20))
        axes.set_yticks(np.arange(0, 101, 20))
        for place, family in enumerate(families):
            axes.plot(
                [], [], SHAPES[place % len(SHAPES)], color=COLOURS[place % len(COLOURS)], markersize=6,
                linestyle="none", label=FAMILY_TITLES[family],
            )  # fmt: skip
        axes.plot([], [], "o", color=INK, fillstyle="none", markersize=6, linestyle="none", label="Held-out source")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8.5, borderaxespad=0)
        above = sum(b.metrics[HIT].value > a.metrics[HIT].value for a, b in scores)
        axes.text(
            0.02, 0.98, f"{shortened(second.title, 24)} ahead on {above} of {len(scores)} tasks",
            transform=axes.transAxes, va="top", color=MUTED, fontsize=8.5,
        )  # fmt: skip
        return canvas.done(f"Hit@1 of {first.title} and {second.title} on every task")
