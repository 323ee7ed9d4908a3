"""The plan of a cluster run in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from medheb.cluster.plan import ClusterPlan
from medheb.fetch.plan_table import UNKNOWN, size_text

BOUNDS = (
    "Inputs and hours are upper bounds for a full test of each task, at the speed on one data-centre GPU (H100 class) "
    "that models.yaml states; an older card takes longer."
)


def print_cluster_plan(plan: ClusterPlan, console: Console) -> None:
    """Print jobs, work of the models, shards and disk."""
    jobs = _table(f"{plan.jobs:,} jobs, {plan.submitted:,} of them submitted to Slurm", "Rule", ("Jobs",), "Where")
    for rule in plan.rules:
        jobs.add_row(rule.rule, f"{rule.jobs:,}", "Slurm" if rule.submitted else "beside Snakemake")
    work = _table(
        f"{plan.models} models on {plan.tasks} tasks of {plan.sources} sources: {plan.gpu_hours:,.1f} GPU hours"
        + (f" (+ {plan.gpu_hours_unknown} models of unknown speed)" if plan.gpu_hours_unknown else ""),
        "Model",
        ("Pictures", "Volumes", "Texts", "Jobs", "GPU hours", "Longest job", "Vectors"),
    )
    for one in plan.work:
        work.add_row(
            escape(one.title),
            *(f"{number:,}" for number in (one.pictures, one.volumes, one.texts, one.jobs)),
            UNKNOWN if one.gpu_hours is None else f"{one.gpu_hours:,.1f}",
            UNKNOWN if one.longest_minutes is None else f"{one.longest_minutes:.0f} min",
            size_text(one.store_bytes),
        )
    shards = _table(f"{len(plan.shards)} sources built in shards", "Source", ("Cases", "Decoded", "Jobs"))
    for source in plan.shards:
        cases = UNKNOWN if source.cases is None else f"{source.cases:,}"
        shards.add_row(source.source, cases, size_text(source.bytes), str(source.jobs))
    for table in (jobs, shards, work):
        console.print(table)
    for line in (BOUNDS, disk_line(plan)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def disk_line(plan: ClusterPlan) -> str:
    """Room on the disk, in one line."""
    disk = plan.disk
    parts = [
        _bound(size_text(disk.downloads), "of downloads", disk.downloads_unknown),
        _bound(size_text(disk.built), "unpacked and built", disk.built_unknown),
        _bound(size_text(disk.weights), "of weights", disk.weights_unknown),
        _bound(size_text(disk.stores), "of vectors", disk.stores_unknown),
        _bound(f"{disk.inodes:,}", "files", disk.inodes_unknown),
    ]
    return f"Disk: {', '.join(parts)}."


def _bound(amount: str, what: str, unknown: int) -> str:
    return f"{amount} {what} (+ {unknown} unknown)" if unknown else f"{amount} {what}"


def _table(title: str, first: str, numbers: tuple[str, ...], last: str = "") -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    if last:
        table.add_column(last)
    return table
