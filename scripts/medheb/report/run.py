"""The report step: everything is made first, then written file by file, the page last."""

from __future__ import annotations

import logging
import shutil

from medheb.core.errors import MedhebError
from medheb.core.files import write_bytes, write_json, write_text
from medheb.manifest.load import Run
from medheb.report.analysis import assignment
from medheb.report.collect import Results, collect
from medheb.report.exports import export, export_paper, percent_columns
from medheb.report.gallery import gallery, within
from medheb.report.graded import Graded, collect_graded, graded_table
from medheb.report.html import Made, render, render_gallery
from medheb.report.mteb import write_mteb
from medheb.report.paper import PaperTable, paper_tables
from medheb.report.per_query import load_values
from medheb.report.published import Published, published_of
from medheb.report.quality import quality_json, quality_table
from medheb.report.sections import draw
from medheb.report.significance import METRIC, Significance, pair_table, significance, standing_table
from medheb.report.summary import summary
from medheb.report.tables import as_csv, family_table, leaderboard, task_table
from medheb.report.words import plural

FOLDERS = ("tables", "figures", "mteb", "gallery")
MAX_PAGE_BYTES = 15_000_000
log = logging.getLogger(__name__)


def collect_report(run: Run, banner: str = "") -> None:
    """Write ``index.html`` and all that belongs to it into the run's report folder.

    Beside the page: ``leaderboard.csv``, ``tasks.csv``, ``quality.csv``, ``quality.json``, ``summary.json``, every
    table in four formats in ``tables/``, figures as SVG and PNG in ``figures/``, results in the form of MTEB in
    ``mteb/``, and ``gallery/`` where not all examples fit the page. Missing or unreadable scores become missing cells.

    Args:
        run: with its results.
        banner: stands at the top of every page, such as that nothing of it is a result.

    Raises:
        MedhebError: scores that cannot stand in one table; a page that would be larger than 15 MB.
    """
    results = collect(run)
    published = published_of(run)
    graded = collect_graded(run)
    paper = paper_tables(results, published, graded)
    found = significance(results, load_values(results, METRIC))
    figures = draw(results, published)
    galleries = gallery(results)
    shown = within(galleries)
    page = render(results, Made(shown, published, paper, graded, found, figures, banner))
    folder = run.layout.report
    size = len(page.encode("utf-8"))
    if size > MAX_PAGE_BYTES:
        raise MedhebError(
            folder / "index.html",
            f"would have {size / 1e6:.1f} MB, more than {MAX_PAGE_BYTES / 1e6:.0f} MB",
            "Lower 'report.examples', or select fewer models or tasks",
        )
    for part_of_it in FOLDERS:  # nothing of an earlier report may stay beside this one
        shutil.rmtree(folder / part_of_it, ignore_errors=True)
    write_text(folder / "leaderboard.csv", as_csv(leaderboard(results)))
    write_text(folder / "tasks.csv", as_csv(task_table(results)))
    write_text(folder / "quality.csv", as_csv(quality_table(results)))
    write_json(folder / "quality.json", quality_json(results))
    write_json(folder / "summary.json", summary(results, graded))
    _write_tables(results, published, paper, graded, found)
    for part, kept in zip(galleries, shown, strict=True):
        if kept.more:
            write_text(folder / "gallery" / f"{part.task.task}.html", render_gallery(results, part, banner))
    for drawn in figures.values():
        if drawn:
            write_text(folder / "figures" / f"{drawn.name}.svg", drawn.document)
            write_bytes(folder / "figures" / f"{drawn.name}.png", drawn.picture)
    write_mteb(results, folder / "mteb")
    write_text(folder / "index.html", page)
    missing = len(results.missing)
    log.info("report: %d of %d cells, %s", len(results.cells) - missing, len(results.cells), folder / "index.html")
    if missing:
        log.warning("report: missing %s; the page says why and what to do", plural(missing, "cell"))


def _write_tables(
    results: Results, published: Published, paper: list[PaperTable], graded: Graded, found: Significance
) -> None:
    folder = results.run.layout.report / "tables"
    named = {"leaderboard": leaderboard(results), "families": family_table(results), "tasks": task_table(results)}
    for name, table in named.items():
        export(folder, name, table, percent_columns(table))
    export(folder, "assignment", assignment(results, published))
    for filled in paper:
        export_paper(folder, filled)
    if graded.cells:
        table = graded_table(graded)
        export(folder, "graded", table, percent_columns(table))
    export(folder, "pairs", pair_table(found))
    export(folder, "ranks", standing_table(found))
