"""Do the units of a build: in one process or several, once each, taken up again after a crash.

All attempts at one build, on whatever machine, share one staging folder. A unit leaves a marker there after its
files; what has a marker and files of the right sizes is not made again.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

from medheb.build.inventory import BuiltFile, Refusal, Remark
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.core.errors import MedhebError, printable
from medheb.core.files import write_bytes
from medheb.manifest.base import Strict, read_json, validate

MARKERS = ".units"
SECONDS_BETWEEN_LINES = 30.0
FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
log = logging.getLogger("medheb.build")


class UnitResult(Strict):
    """Marker of a unit: what it made, in ``<staging>/.units``. ``linked`` files stay where the user has them."""

    unit: str
    files: tuple[BuiltFile, ...]
    linked: tuple[str, ...] = ()
    notes: tuple[str, ...]
    counts: dict[str, int]
    refusals: tuple[Refusal, ...]
    remarks: tuple[Remark, ...]


def shown(source: Source, name: str) -> str:
    """What a message may call a case, file or row: nothing, if the source may not be shown."""
    return name if source.dataset.show_content else "one of its cases (its terms forbid to name it)"


def sorted_units(recipe: Recipe, source: Source) -> list[Unit]:
    """All units of a source by name.

    Raises:
        MedhebError: none, two of one name, or a folder that may not be read.
    """
    try:
        found = recipe.units(source)
    except OSError as error:
        raise unreadable(error, source.dataset.id) from error
    units = sorted(found, key=lambda unit: unit.name.encode("utf-8", "surrogateescape"))
    for unit, following in pairwise(units):
        if unit.name == following.name:
            raise MedhebError(
                f"{source.dataset.id}: {shown(source, unit.name)}",
                "is claimed by two files or rows",
                "Remove one of them",
            )
    if not units:
        raise MedhebError(source.files, f"holds nothing of {source.dataset.title}", "Check the folder")
    return units


def unreadable(error: OSError, where: str) -> MedhebError:
    """A refusal of the operating system in our words; it names the file or folder."""
    fault = f"cannot be read ({error.strerror or error})"
    return MedhebError(error.filename or where, fault, "Mend the file or its rights")


def do_units(
    recipe: Recipe, source: Source, units: Sequence[Unit], staging: Path, workers: int
) -> Iterator[UnitResult]:
    """Build what lacks a marker, then yield the results of ``units`` in their order.

    Raises:
        MedhebError: something that all units need is not there.
        OSError: the disk is full.
    """
    missing = [unit for unit in units if read_marker(staging, unit) is None]
    if len(missing) < len(units):
        log.info("build %s: %d of %d units are there already", source.dataset.id, len(units) - len(missing), len(units))
    if missing and recipe.ready:
        recipe.ready(source)
    staging.mkdir(parents=True, exist_ok=True)
    _build_all(recipe, source, missing, staging, workers)
    for unit in units:
        result = read_marker(staging, unit)
        if result is None:
            raise MedhebError(staging, f"lost the files of unit {shown(source, unit.name)}", "Run the build again")
        yield result


def _build_all(recipe: Recipe, source: Source, units: Sequence[Unit], staging: Path, workers: int) -> None:
    started = last = time.monotonic()
    done: Iterator[str]
    if workers <= 1 or len(units) <= 1:
        done = (_build_one(recipe, source, unit, staging) for unit in units)
        pool = None
    else:
        # Fresh interpreters: a fork would copy threads of the libraries in an unknown state.
        pool = ProcessPoolExecutor(min(workers, len(units)), mp_context=multiprocessing.get_context("spawn"))
        futures = [pool.submit(_build_one, recipe, source, unit, staging) for unit in units]
        done = (future.result() for future in futures)
    try:
        for count, _ in enumerate(done, start=1):
            now = time.monotonic()
            if now - last >= SECONDS_BETWEEN_LINES:
                last = now
                left = (now - started) / count * (len(units) - count)
                log.info("build %s: %d of %d units, %.0f min left", source.dataset.id, count, len(units), left / 60)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _build_one(recipe: Recipe, source: Source, unit: Unit, staging: Path) -> str:
    """One unit: its files, then its marker. A refusal is a result. Returns the unit's name."""
    output = Output(staging, source.dataset.id)
    try:
        recipe.build(source, unit, output)
    except MedhebError as error:
        output.discard()
        output.refuse(error)
    except OSError as error:
        output.discard()
        if error.errno in FULL_DISK:
            raise
        output.refuse(unreadable(error, f"{source.dataset.id}: {unit.name}"))
    if source.dataset.show_content:
        for refusal in output.refusals:
            # Only the inventory names cases: a log may be passed on.
            log.debug("build %s: %s %s", source.dataset.id, refusal.where, refusal.fault)
    result = UnitResult(
        unit=printable(unit.name),
        files=tuple(output.files.values()),
        linked=tuple(sorted(output.linked)),
        notes=tuple(output.notes),
        counts=dict(output.counts),
        refusals=tuple(output.refusals),
        remarks=tuple(output.remarks),
    )
    write_bytes(marker_path(staging, unit), result.model_dump_json().encode())
    return unit.name


def marker_path(staging: Path, unit: Unit) -> Path:
    """Marker of a unit."""
    name = hashlib.sha256(unit.name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return staging / MARKERS / f"{name}.json"


def read_marker(staging: Path, unit: Unit) -> UnitResult | None:
    """What a unit made, None if it is not done or its files are not all there in full."""
    path = marker_path(staging, unit)
    if not path.exists():
        return None
    try:
        result = validate(UnitResult, read_json(path, "Run the build again"), path)
    except MedhebError:
        return None
    linked = set(result.linked)
    whole = all(file.path in linked or _size(staging / file.path) == file.bytes for file in result.files)
    return result if whole and result.unit == printable(unit.name) else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
