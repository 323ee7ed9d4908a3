"""The licence gate: no source is fetched before somebody has accepted its terms, and that decision is kept.

A decision names a digest of the terms that were read. If the manifest's terms change, it no longer holds.
"""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from medheb.core.digests import canonical_json, sha256_bytes
from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import write_json
from medheb.core.json_text import parse_json
from medheb.core.layout import Layout
from medheb.fetch.space import disk_trouble
from medheb.manifest.base import Identifier, Sha256, Strict, validate
from medheb.manifest.dataset import AccessClass, Dataset, Licence
from medheb.manifest.load import Run

WHO_VARIABLE = "MEDHEB_WHO"
MAX_WHO = 100


class Terms(Strict):
    """What of a manifest a user accepts."""

    licence: Licence
    access: AccessClass
    redistribution: bool

    @property
    def digest(self) -> str:
        """Hex sha256 of the canonical JSON of the terms."""
        return sha256_bytes(canonical_json(self.model_dump(mode="json")))


class Decision(Strict):
    """One recorded acceptance. Holds no secret; the report shows it."""

    schema_version: int = 1
    dataset: Identifier
    who: str = Field(min_length=1, max_length=MAX_WHO)
    when: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", description="UTC")
    digest: Sha256 = Field(description="of the terms that were accepted")
    terms: Terms = Field(description="the terms themselves, as they stood then")


def terms_of(dataset: Dataset) -> Terms:
    """The terms of a source."""
    return Terms(licence=dataset.licence, access=dataset.access, redistribution=dataset.redistribution)


def decision_file(layout: Layout, dataset: str) -> Path:
    """Where the decision about a source lies."""
    return layout.decision(dataset)


def read_decision(layout: Layout, dataset: str) -> Decision | None:
    """The recorded decision about a source, whatever terms it is about; None if there is none.

    Raises:
        MedhebError: the file is damaged or is about another source.
    """
    path = decision_file(layout, dataset)
    remedy = f"Delete it and run `medheb accept {dataset}` again"
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise MedhebError(path, "is not JSON", remedy) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Check its rights") from error
    decision = validate(Decision, content, path)
    if decision.dataset != dataset:
        raise MedhebError(path, f"is about source '{decision.dataset}'", remedy)
    if decision.terms.digest != decision.digest:
        raise MedhebError(path, "holds terms that are not those of its digest", remedy)
    return decision


def accepted_by_config(run: Run, dataset: Dataset) -> bool:
    """True if the line ``accept: open`` of the configuration covers the source."""
    return run.config.accept == "open" and dataset.access == "open"


def require_accepted(run: Run, dataset: Dataset) -> None:
    """Let a source pass only if its terms, as they stand now, have been accepted.

    Raises:
        BlockedError: nobody has accepted them, they have changed since, or the record is damaged.
    """
    if accepted_by_config(run, dataset):
        return
    try:
        decision = read_decision(run.layout, dataset.id)
    except MedhebError as error:
        raise BlockedError(error.where, error.fault, error.remedy) from error
    if decision is None:
        raise BlockedError(
            dataset.title, "its terms have not been accepted", f"Read them with `medheb accept {dataset.id}`"
        )
    if decision.digest != terms_of(dataset).digest:
        raise BlockedError(
            dataset.title,
            f"its terms have changed since {decision.who} accepted them on {decision.when[:10]}; that no longer counts",
            f"Read the new ones with `medheb accept {dataset.id}`",
        )


def record_decision(layout: Layout, dataset: Dataset, who: str) -> Decision:
    """Write the decision that ``who`` accepts the terms of a source as they stand now."""
    terms = terms_of(dataset)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    decision = Decision(dataset=dataset.id, who=checked_name(who), when=now, digest=terms.digest, terms=terms)
    try:
        write_json(decision_file(layout, dataset.id), decision.model_dump(mode="json"))
    except OSError as error:
        raise disk_trouble(error, f"the decision about {dataset.id}") from error
    return decision


def current_user() -> str:
    """Who decides: ``MEDHEB_WHO`` if it is set, else the login name.

    Raises:
        MedhebError: this machine knows no login name and the variable is not set.
    """
    name = os.environ.get(WHO_VARIABLE, "").strip()
    if not name:
        try:
            name = getpass.getuser()
        except (OSError, KeyError, ImportError) as error:
            raise MedhebError("the login name", "is not known here", f"Set {WHO_VARIABLE} to your name") from error
    return checked_name(name)


def checked_name(name: str) -> str:
    """A name that may stand in a record and a report: one printable line.

    Raises:
        MedhebError: empty, too long, or with control characters.
    """
    name = name.strip()
    if not name or len(name) > MAX_WHO or not name.isprintable():
        raise MedhebError(
            "the name of who accepts", "is empty, too long or not printable", f"Set {WHO_VARIABLE} to your name"
        )
    return name


def acceptance_text(run: Run, dataset: Dataset) -> str:
    """Who accepted the terms of a source and when, in words for the report. Never raises."""
    if accepted_by_config(run, dataset):
        return "accepted by 'accept: open' in the configuration"
    try:
        decision = read_decision(run.layout, dataset.id)
    except MedhebError:
        return "the record of its acceptance is damaged"
    if decision is None:
        return "terms not accepted"
    if decision.digest != terms_of(dataset).digest:
        return f"terms changed since {decision.who} accepted them on {decision.when[:10]}"
    return f"accepted by {decision.who} on {decision.when[:10]} (terms {decision.digest[:12]})"
