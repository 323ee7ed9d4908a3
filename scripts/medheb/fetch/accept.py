"""``medheb accept``: show the terms of sources, ask, and record the decisions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import Field
from rich.console import Console
from rich.markup import escape

from medheb.core.errors import MedhebError
from medheb.fetch.terms import current_user, decision_file, read_decision, record_decision, terms_of
from medheb.manifest.base import Identifier, Strict, read_yaml, validate
from medheb.manifest.dataset import AccessClass, Dataset
from medheb.manifest.load import Run

SHOWN_DIGEST = 12
ACCESS_WORDS: dict[AccessClass, str] = {
    "open": "open: anybody may download it",
    "registration": "registration: the host wants an account or a form",
    "gated": "gated: ask for access on the host's page first, with your own account",
    "competition": "competition: join it and accept its rules on the host's page first, with your own account",
    "credentialed": "credentialed: only for people whom the host has cleared; only your own copy is used",
    "restricted": "restricted: only under an agreement with the owner; your own copy is verified",
}


class AcceptanceFile(Strict):
    """Decisions for an unattended run: who accepts, and which text of each source's terms."""

    who: str = Field(min_length=1, max_length=100)
    accept: dict[Identifier, str] = Field(
        min_length=1, description="source id: the digest that `medheb accept <id>` shows, or its first 12 digits"
    )


def selected(run: Run, ids: Iterable[str]) -> list[Dataset]:
    """The named sources.

    Raises:
        MedhebError: an id that is no source of this run.
    """
    wanted = list(dict.fromkeys(ids))
    for name in wanted:
        if name not in run.datasets:
            raise MedhebError(f"source '{name}'", "is not part of this run", f"Allowed: {', '.join(run.datasets)}")
    return [run.datasets[name] for name in wanted]


def terms_lines(dataset: Dataset) -> list[tuple[str, str]]:
    """What a user must know before accepting, as label and text."""
    licence = dataset.licence
    built = "may be passed on" if dataset.redistribution else "must not be passed on"
    shown = "may show its pictures and texts" if dataset.show_content else "show none of its pictures, texts or paths"
    lines = [
        ("access", ACCESS_WORDS[dataset.access]),
        ("licence", licence.spdx or "none of the standard ones"),
        ("terms", licence.url),
        ("note", licence.note),
        ("built files", built),
        ("reports", shown),
        ("cite", dataset.citation),
        ("digest", terms_of(dataset).digest[:SHOWN_DIGEST]),
    ]
    return [(label, text) for label, text in lines if text]


def show_terms(dataset: Dataset, console: Console) -> None:
    """Print the terms of a source."""
    console.rule(escape(f"{dataset.id}: {dataset.title}"), align="left", style="dim")
    for label, text in terms_lines(dataset):
        console.print(f"{label:>12}  {text}", markup=False, highlight=False, soft_wrap=True)


def accept(run: Run, datasets: list[Dataset], console: Console, agrees: Callable[[Dataset], bool]) -> list[str]:
    """Show each source's terms, ask ``agrees``, record what was accepted.

    Terms that already are accepted are told and not asked again.

    Returns:
        Ids of the sources whose terms were declined.
    """
    who = current_user()
    declined: list[str] = []
    for dataset in datasets:
        show_terms(dataset, console)
        if _holds(run, dataset):
            console.print("accepted before; nothing changed", markup=False)
        elif agrees(dataset):
            decision = record_decision(run.layout, dataset, who)
            console.print(
                f"accepted by {decision.who} on {decision.when}, recorded in {decision_file(run.layout, dataset.id)}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        else:
            declined.append(dataset.id)
            console.print("not accepted; this source stays blocked", markup=False)
    return declined


def ask(dataset: Dataset) -> bool:
    """Ask on the terminal; only the word ``yes`` accepts.

    Raises:
        MedhebError: there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise MedhebError(
            dataset.title,
            "its terms must be accepted by a person, and there is no terminal to ask on",
            "Run this in a terminal, or give --yes or --file",
        )
    return input("Do you accept these terms? Type yes: ").strip().lower() == "yes"


def accept_file(run: Run, path: Path, console: Console) -> None:
    """Record the decisions of a file. All are checked before the first is written.

    Raises:
        MedhebError: an unknown source, or terms that are not those the file names.
    """
    wanted = validate(AcceptanceFile, read_yaml(path), path)
    datasets = selected(run, wanted.accept)
    for dataset in datasets:
        named, digest = wanted.accept[dataset.id].strip().lower(), terms_of(dataset).digest
        if len(named) < SHOWN_DIGEST or not digest.startswith(named):
            raise MedhebError(
                path,
                f"accepts terms {named[:SHOWN_DIGEST] or '(none)'} of source {dataset.id}, which now has others",
                f"Read them with `medheb accept {dataset.id}`; if you agree, write {digest[:SHOWN_DIGEST]}",
            )
    for dataset in datasets:
        if _holds(run, dataset):
            console.print(f"{dataset.id}: accepted before", markup=False, highlight=False)
        else:
            decision = record_decision(run.layout, dataset, wanted.who)
            console.print(f"{dataset.id}: accepted by {decision.who}", markup=False, highlight=False)


def _holds(run: Run, dataset: Dataset) -> bool:
    try:
        decision = read_decision(run.layout, dataset.id)
    except MedhebError:
        return False  # a damaged record is written anew
    return decision is not None and decision.digest == terms_of(dataset).digest
