"""The status that every step leaves behind: blocked is data, not an exception (design.md section 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import write_json

State = Literal["ok", "blocked", "failed"]


class Status(BaseModel):
    """Outcome of a step for one unit of work.

    ``reason`` and ``remedy`` are empty exactly when ``state`` is ``ok``. ``origin`` names the step and
    unit where the trouble began (``fetch kvasir``); later steps pass it on unchanged.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: State
    origin: str = ""
    reason: str = ""
    remedy: str = ""

    @property
    def ok(self) -> bool:
        """True if later steps may use the result."""
        return self.state == "ok"


OK = Status(state="ok")


def status_of(error: MedhebError, origin: str) -> Status:
    """The status that an error becomes: ``blocked`` if it lies outside our reach, else ``failed``."""
    state: State = "blocked" if isinstance(error, BlockedError) else "failed"
    return Status(state=state, origin=origin, reason=f"{error.where}: {error.fault}", remedy=error.remedy)


def first_trouble(statuses: list[Status]) -> Status:
    """The first status that is not ok, else ok."""
    return next((status for status in statuses if not status.ok), OK)


def write_status(path: Path, status: Status) -> None:
    """Write a status file atomically."""
    write_json(path, status.model_dump())


def read_status(path: Path) -> Status:
    """Read a status file.

    Raises:
        MedhebError: it is missing or not a status.
    """
    try:
        return Status.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise MedhebError(path, "is missing", "Run the step before it again") from None
    except ValidationError as error:
        raise MedhebError(
            path, f"is not a status file ({error.error_count()} faults)", "Delete it and run again"
        ) from error
