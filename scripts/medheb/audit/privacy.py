"""Which names and reasons may stand in the audit folder."""

from __future__ import annotations

from collections.abc import Iterable

from medheb.audit.schema import WITHHELD
from medheb.manifest.load import Run
from medheb.report.privacy import public_text


def may_show(run: Run, sources: Iterable[str]) -> bool:
    """True if paths and texts of all ``sources`` may be shown; a source that the run does not know may not."""
    return all(source in run.datasets and run.datasets[source].show_content for source in sources)


def public_reason(run: Run, sources: Iterable[str], text: str) -> str:
    """A status text without secrets and without this machine's folders; withheld whole for restricted sources."""
    names = list(sources)
    if not text:
        return ""
    if not may_show(run, names):
        return WITHHELD
    return public_text(text, run.layout, [run.datasets[name] for name in names])
