"""The plan as a table in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from medheb.fetch.plan import OwnCopies, Plan, SourcePlan, Sum

UNKNOWN = "?"
OWN = "own copy"
STYLES = {"ready": "green", "present": "dim", "blocked": "yellow"}
STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def size_text(size: int | None) -> str:
    """Bytes in decimal units, a question mark if unknown."""
    if size is None:
        return UNKNOWN
    for step, unit in STEPS:
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def hours_text(hours: float | None) -> str:
    """Hours with one decimal, a question mark if unknown."""
    if hours is None:
        return UNKNOWN
    return "<0.1" if 0 < hours < 0.05 else f"{hours:.1f}"


def print_plan(plan: Plan, console: Console) -> None:
    """Print sources, totals and the shortage, if there is one."""
    table = Table(
        title=f"{len(plan.sources)} sources of {plan.manifests}, hours at {plan.bandwidth_mbit:g} Mbit/s",
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )
    table.add_column("Source", overflow="fold")
    for heading in ("Access", "Host"):
        table.add_column(heading, overflow="fold")
    for heading in ("To load", "On disk", "Files", "Hours"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("State", overflow="fold")
    table.add_column("What to do", overflow="fold", ratio=1)
    for source in plan.sources:
        table.add_row(
            source.id,
            source.access,
            source.host,
            OWN if source.own_copy else size_text(source.remaining_bytes),
            _disk_text(source),
            UNKNOWN if source.inodes is None else f"{source.inodes:,}",
            "" if source.own_copy else hours_text(source.hours),
            f"[{STYLES[source.state]}]{_state_text(source)}[/]",
            escape(f"{source.reason}. {source.remedy}" if source.reason else ""),
        )
    console.print(table)
    for line in totals(plan):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def totals(plan: Plan) -> list[str]:
    """The plan in short: one line for each state, the own copies and the room on the disk."""
    return [
        f"   ready: {_sum_text(plan.ready)}",
        f" blocked: {_sum_text(plan.blocked)}",
        f" present: {_sources_text(plan.present)}",
        f"     own: {_own_text(plan.own_copies)}",
        f"    free: {size_text(plan.free_bytes)} on disk",
    ]


def _disk_text(source: SourcePlan) -> str:
    if source.disk_bytes is not None:
        return size_text(source.disk_bytes)
    return f"> {size_text(source.disk_at_least)}" if source.disk_at_least else UNKNOWN


def _own_text(own: OwnCopies) -> str:
    size = size_text(own.bytes) + (f" (+ {own.unknown} of unknown size)" if own.unknown else "")
    return f"{_sources_text(own.sources)}, {size} of your own copies, verified and never downloaded"


def _sources_text(count: int) -> str:
    return f"{count} source{'' if count == 1 else 's'}"


def _state_text(source: SourcePlan) -> str:
    return f"{source.state}: {source.here}" if source.here != "nothing" else source.state


def _sum_text(total: Sum) -> str:
    parts = [
        _sources_text(total.sources),
        _lower_bound(f"{size_text(total.remaining_bytes)} to load", total.remaining_unknown),
        f"{'at least ' if total.disk_unknown else ''}{size_text(total.disk_at_least)} on disk",
        _lower_bound(f"{total.inodes:,} files", total.inodes_unknown),
        f"{hours_text(total.hours)} hours",
    ]
    return ", ".join(parts)


def _lower_bound(text: str, unknown: int) -> str:
    return f"{text} (+ {unknown} of unknown size)" if unknown else text
