"""Snakemake logger of `medheb run`: one line for each job with done/total and time left, a bar on a terminal.

Snakemake finds it by its module name (``--logger medheb``). Details of each job stay in the job's own log.
"""

from __future__ import annotations

import time
from collections import Counter
from logging import ERROR, WARNING, LogRecord
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

LOG_TAIL_LINES = 15


def duration(seconds: float) -> str:
    """Seconds as people say them: ``45 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class LogHandler(LogHandlerBase):
    """Receives Snakemake's events."""

    def __post_init__(self) -> None:
        self.console = Console(stderr=True, soft_wrap=True)
        self.names: dict[int, str] = {}
        self.rules: dict[int, str] = {}
        self.running: dict[int, float] = {}  # job: when it began
        self.waiting: Counter[str] = Counter()  # jobs of each rule that have not ended
        self.lasted: dict[str, list[float]] = {}  # seconds of the ended jobs of each rule
        self.started = time.monotonic()
        self.done = 0
        self.total = 0
        self.bar: Progress | None = None
        self.bar_task: TaskID | None = None

    def emit(self, record: LogRecord) -> None:
        """Handle one event; an error while showing progress must never stop a run."""
        try:
            self._show(record)
        except Exception:  # noqa: BLE001 - logging.Handler's contract: report through handleError
            self.handleError(record)

    def _show(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO:
            self._begin(dict(getattr(record, "stats", None) or {}))
        elif event == LogEvent.JOB_INFO:
            wildcards = dict(getattr(record, "wildcards", None) or {})
            what = " ".join(str(value) for value in wildcards.values())
            self.names[record.jobid] = f"{record.rule_name} {what}".strip()
            self.rules[record.jobid] = record.rule_name
            self.running[record.jobid] = time.monotonic()
            # Jobs with several threads are the long ones: without a bar, say that one has begun.
            if self.bar is None and getattr(record, "threads", 1) > 1:
                self.console.print(f"... {self.names[record.jobid]}", markup=False, highlight=False)
            self._refresh()
        elif event == LogEvent.JOB_FINISHED:
            self._note_duration(record.job_id)
            self.done += 1
            self._finished(self.names.get(record.job_id, ""))
        elif event == LogEvent.JOB_ERROR:
            self._failed(record)
        elif event in (None, LogEvent.ERROR) and record.levelno >= (ERROR if event is None else WARNING):
            self.console.print(record.getMessage(), style="red", markup=False, highlight=False)

    def _begin(self, stats: dict[str, int]) -> None:
        total = int(stats.pop("total", 0))
        self.started, self.done, self.total = time.monotonic(), 0, total
        self.waiting = Counter({rule: int(count) for rule, count in stats.items()})
        self.console.print(f"{total} jobs to run", highlight=False)
        if self.console.is_terminal:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
            self.bar = Progress(*columns, TextColumn("[dim]{task.description}"), console=self.console)
            self.bar_task = self.bar.add_task("starting", total=total, left="")
            self.bar.start()

    def _note_duration(self, job: int) -> None:
        began = self.running.pop(job, None)
        rule = self.rules.get(job, "")
        self.waiting[rule] -= 1
        if began is not None:
            self.lasted.setdefault(rule, []).append(time.monotonic() - began)

    def _left(self) -> str:
        """Jobs that wait, each as long as its rule has taken so far; a rule not seen yet counts as an average job."""
        seconds = [value for values in self.lasted.values() for value in values]
        if not seconds or self.done >= self.total:
            return ""
        average = sum(seconds) / len(seconds)
        at_once = max(1.0, sum(seconds) / (time.monotonic() - self.started))
        left = sum(
            count * (sum(self.lasted[rule]) / len(self.lasted[rule]) if rule in self.lasted else average)
            for rule, count in self.waiting.items()
        )
        unseen = any(count > 0 and rule not in self.lasted and rule != "all" for rule, count in self.waiting.items())
        return f"{'at least' if unseen else 'about'} {duration(left / at_once)} left"

    def _finished(self, name: str) -> None:
        if self.bar is None:
            elapsed = duration(time.monotonic() - self.started)
            left = self._left()
            line = f"[{self.done}/{self.total}] {name}  ({elapsed}{', ' + left if left else ''})"
            self.console.print(line, markup=False, highlight=False)
        self._refresh()
        if self.done == self.total:
            self._end()

    def _refresh(self) -> None:
        if self.bar is not None and self.bar_task is not None:
            running = ", ".join(self.names[job] for job in sorted(self.running))
            self.bar.update(self.bar_task, completed=self.done, left=self._left(), description=running[:90])

    def _failed(self, record: LogRecord) -> None:
        job = getattr(record, "jobid", -1)
        self.running.pop(job, None)
        self.console.print(f"FAILED {self.names.get(job, record.getMessage())}", style="bold red", highlight=False)
        for path in getattr(record, "log", None) or []:
            self.console.print(f"its log, {path}, ends with:", highlight=False, markup=False)
            log = Path(path)
            if log.exists():
                for line in log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]:
                    self.console.print(f"  {line}", highlight=False, markup=False)

    def _end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def close(self) -> None:
        """Give the terminal back."""
        self._end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """It replaces Snakemake's own messages on stderr."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake keeps its own log file."""
        return False

    @property
    def has_filter(self) -> bool:
        """It chooses events itself."""
        return True

    @property
    def has_formatter(self) -> bool:
        """It formats events itself."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It shows no graph."""
        return False
