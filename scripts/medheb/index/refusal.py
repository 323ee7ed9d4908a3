"""Refusals that may always be shown."""

from __future__ import annotations

from medheb.core.errors import MedhebError


class RuleError(MedhebError):
    """A refusal that holds counts and names of rules, facts and sources only: nothing of what a source holds.

    The terms of no source forbid to show it, unlike other refusals of the index step.
    """
