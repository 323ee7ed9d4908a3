"""What the sections of the page are made of: significance, tables of the paper, figures, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from markupsafe import Markup

from medheb.core.errors import MedhebError
from medheb.embed.receipt import read_receipt
from medheb.report.analysis import baselines, families_complete, pair_to_compare
from medheb.report.collect import Results
from medheb.report.figure_style import Drawn
from medheb.report.figures import family_profile, heat_map
from medheb.report.figures_balance import accuracy_against_cv, established_against_underexplored, model_against_model
from medheb.report.figures_tasks import anatomy_and_form, difficulty_buckets, target_length
from medheb.report.paper import COLUMN_LABELS, METRIC_LABELS, PaperCell, PaperTable, written
from medheb.report.published import Published
from medheb.report.significance import OVERALL, Pair, Significance
from medheb.report.words import plural

NOTES = {
    "4": "Hit@1 and MRR@5 are means over the tasks of a family, a split, or all.",
    "8": "Hit@5, means over the same tasks as table 4.",
    "7": "Mean, population standard deviation (SD) and CV = SD / mean of the family means; less is more even. The "
    "published VQA column differs from that of table 4, so published mean, SD and CV belong to another VQA mean.",
    "5": "NDCG@5. The published gains are not known: ours are those of our own written rules.",
    "6": "Queries of one source against candidates of another; relevance is the overlap of their labels.",
}


NO_GPU = ("", "CPU")  # devices of receipts: nothing was computed, or on a CPU; else the name of a GPU


def significance_section(results: Results, found: Significance) -> dict[str, Any]:
    """Ranks with intervals, the matrix of pairs, and what could not be tested."""
    ranks = [{**vars(row), "has_such": not math.isnan(row.such_low)} for row in found.standings[OVERALL]]
    pairs = {(pair.first, pair.second): pair for pair in found.pairs[OVERALL]}
    compared = {name for key in pairs for name in key}
    order = [row["model"] for row in ranks if row["model"] in compared]
    order += [model for model in results.run.models if model in compared and model not in order]
    letters = [set(row["group"]) for row in ranks]
    tied = sum(bool(one & next_) for one, next_ in pairwise(letters))
    neighbours = (
        f"{tied} of {plural(len(ranks) - 1, 'neighbouring pair')} cannot be told apart." if len(ranks) > 1 else ""
    )
    return {
        "ranks": ranks,
        "tied_neighbours": neighbours,
        "matrix": [
            {"model": row, "cells": [_matrix_cell(pairs, row, column, found.alpha) for column in order]}
            for row in order
        ],
        "pairs_tested": len(pairs),
        "alpha": f"{100 * found.alpha:g}",
        "left_out": found.left_out,
    }


def _matrix_cell(pairs: dict[tuple[str, str], Pair], row: str, column: str, alpha: float) -> dict[str, Any] | None:
    pair, sign = (pairs.get((row, column)), 1) if (row, column) in pairs else (pairs.get((column, row)), -1)
    if pair is None:
        return None
    low, high = sorted(sign * limit for limit in pair.these.interval(1 - alpha))
    return {
        "other": column,
        "tasks": pair.tasks,
        "value": sign * pair.these.value,
        "low": low,
        "high": high,
        "p": pair.these_p,
        "such_p": pair.such_p,
        "sure": pair.these_p < alpha,
        "such_sure": pair.such_p < alpha,
    }


def paper_section(tables: Sequence[PaperTable]) -> list[dict[str, Any]]:
    """The paper's tables in words."""
    return [
        {
            "number": table.spec.number,
            "title": table.spec.title,
            "note": NOTES[table.spec.number],
            "has_values": table.has_values,
            "groups": [
                {"title": METRIC_LABELS[metric], "count": len(list(pairs))}
                for metric, pairs in groupby(table.spec.pairs, key=lambda pair: pair[0])
            ],
            "columns": [
                {"label": COLUMN_LABELS[column], "first": place == 0 or table.spec.pairs[place - 1][0] != metric}
                for place, (metric, column) in enumerate(table.spec.pairs)
            ],
            "rows": [
                {
                    "title": row.title,
                    "in_run": row.in_run,
                    "canary": row.canary,
                    "cells": [
                        _cell(cell, column) for (_, column), cell in zip(table.spec.pairs, row.cells, strict=True)
                    ],
                }
                for row in table.rows
                if any(not math.isnan(cell.value) or not math.isnan(cell.published) for cell in row.cells)
            ],
        }
        for table in tables
    ]


def _cell(cell: PaperCell, column: str) -> dict[str, Any]:
    return {
        "value": written(cell.value, column),
        "published": written(cell.published, column),
        "difference": written(cell.difference, column, sign=True),
        "lacking": f"{cell.tasks} of {plural(cell.expected, 'task')}" if 0 < cell.tasks < cell.expected else "",
        "sort": cell.published if math.isnan(cell.value) else cell.value,
    }


def draw(results: Results, published: Published) -> dict[str, Drawn | None]:
    """All figures by name; None where the run has nothing to draw."""
    return {
        "heat-map": heat_map(results),
        "family-profile": family_profile(results),
        "accuracy-cv": accuracy_against_cv(results),
        "difficulty": difficulty_buckets(results, published),
        "transfer": established_against_underexplored(results),
        "anatomy-form": anatomy_and_form(results),
        "target-length": target_length(results),
        "pair": model_against_model(results),
    }


def figures_section(results: Results, published: Published, figures: dict[str, Drawn | None]) -> list[dict[str, Any]]:
    """The figures of the analysis section, each with its title and a note; without data, the note says why."""
    bases = [model.title for model in baselines(results, published)]
    pair = pair_to_compare(results)
    complete = "" if families_complete(results) else " This run lacks families of the paper's eight."
    said = (
        ("accuracy-cv", "Accuracy against balance", f"Paper figure 6C.{complete}"),
        (
            "difficulty",
            "How hard the tasks are",
            f"Paper figure 4A. Baselines here: {', '.join(bases) or 'none'}. Upright lines: one standard deviation "
            "between the baselines; SD above: its mean in the bucket.",
        ),
        (
            "transfer",
            "Established against underexplored relations",
            "Paper figure 4B. Established: image-image, image-label, image-report, text-image, text-text. "
            "Underexplored: modality-bridging and region-level.",
        ),
        (
            "anatomy-form",
            "Anatomy and evidence form",
            "Paper figure 5. A task belongs to the anatomy of its home source. The paper does not list its assignment; "
            "ours stands in tables/assignment.csv.",
        ),
        (
            "target-length",
            "Length of the text to be found",
            "Paper figure 8. The three best models, tasks with text targets.",
        ),
        (
            "pair",
            f"{pair[1].title} against {pair[0].title}" if pair else "Model against model",
            "Paper figure 6B. Hollow marks: tasks of held-out sources.",
        ),
    )
    return [
        {
            "name": name,
            "title": title,
            # Written by this package; texts of it were escaped when the SVG was made.
            "svg": Markup(drawn.page) if (drawn := figures[name]) else None,  # noqa: S704
            "note": note if drawn else "Nothing to draw: no model has the scores it needs.",
        }
        for name, title, note in said
    ]


def costs(results: Results) -> list[dict[str, Any]]:
    """What each model cost, as its jobs noted it: inputs, hours of embedding and evaluation, hours of GPUs.

    GPU hours count every GPU of a job for the job's whole time; None where no job of the model used a GPU.
    """
    rows = []
    for model in results.run.models:
        receipts = []
        for group in results.run.groups:
            try:
                receipts.append(read_receipt(results.run.layout.embedded(model, group)))
            except (MedhebError, OSError):
                continue  # a job that left no receipt has no seconds to add
        on_gpu = [receipt for receipt in receipts if receipt.device not in NO_GPU]
        rows.append(
            {
                "model": model,
                "inputs": sum(receipt.computed for receipt in receipts),
                "embed_hours": sum(receipt.seconds for receipt in receipts) / 3600 if receipts else math.nan,
                "gpu_hours": sum(receipt.seconds * receipt.ranks for receipt in on_gpu) / 3600 if on_gpu else None,
                "devices": sorted({f"{receipt.device}, {receipt.dtype}" for receipt in receipts if receipt.device}),
                "evaluate_hours": sum(score.seconds for score in results.scores(model)) / 3600,
            }
        )
    return rows
