"""The run that the options before a sub-command choose; every command line of the package asks here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medheb.core.errors import MedhebError
from medheb.manifest.load import Run, load_config, load_run

DEFAULT_CONFIG = Path("config/config.yaml")
FULL_CONFIG = Path("config/full.yaml")


@dataclass
class Chosen:
    """Options given before the sub-command.

    Args:
        config_files: later ones lie over earlier ones.
        config_given: the user named them.
        overrides: options on top.
    """

    config_files: tuple[Path, ...] = (DEFAULT_CONFIG,)
    config_given: bool = False
    overrides: dict[str, Any] = field(default_factory=dict)


_chosen = Chosen()


def chosen() -> Chosen:
    """The options of this process."""
    return _chosen


def choose(config_files: Sequence[Path] | None, overrides: dict[str, Any]) -> None:
    """Note the options of this process."""
    _chosen.config_files = tuple(config_files or [DEFAULT_CONFIG])
    _chosen.config_given = bool(config_files)
    _chosen.overrides = overrides


def current_run() -> Run:
    """The run that the options describe."""
    return load_run(load_config(_chosen.config_files, _chosen.overrides))


def run_with(**named: str) -> Run:
    """The run that the options describe; it has the ``model``, ``group``, ``task`` or ``graded`` that are named.

    Raises:
        MedhebError: it has not; lists what it has.
    """
    return having(current_run(), **named)


def having(run: Run, **named: str) -> Run:
    """The same run, which has what a command line names; see :func:`run_with`.

    Raises:
        MedhebError: it has not.
    """
    kinds = {"model": run.models, "group": run.groups, "task": run.tasks, "graded": run.graded_entries}
    for kind, name in named.items():
        if name not in kinds[kind]:
            what = "graded task" if kind == "graded" else f"{kind} of tasks" if kind == "group" else kind
            raise MedhebError(name, f"is no {what} of this run", f"Allowed: {', '.join(kinds[kind])}")
    return run


def sources_run() -> Run:
    """The run that commands about sources mean: the full benchmark, unless ``--config`` names another."""
    if _chosen.config_given or not FULL_CONFIG.exists():
        return current_run().with_index()
    return load_run(load_config((DEFAULT_CONFIG, FULL_CONFIG), _chosen.overrides)).with_index()
