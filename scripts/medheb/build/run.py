"""The ``build`` step: one source -> its image folder with an inventory, both in one rename."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.build.inventory import (
    BuiltFile,
    Inventory,
    Refusal,
    Remark,
    duplicates_of,
    read_header,
    read_inventory,
    write_inventory,
)
from medheb.build.output import Output
from medheb.build.places import link_places
from medheb.build.recipe import Recipe
from medheb.build.registry import entry_of, recipe_of
from medheb.build.rights import is_folder, is_there
from medheb.build.settings import settings_of
from medheb.build.source import Projector, ProtocolName, Source
from medheb.build.telling import commonest_remedy, equals, kinds_of, totals
from medheb.build.work import MARKERS, do_units, shown, sorted_units, unreadable
from medheb.core.code_digest import code_digest
from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import TEMPORARY_MARK, atomic_folder, fsync_folder, write_json
from medheb.core.layout import Layout
from medheb.core.shards import Shard
from medheb.core.status import OK, Status, read_status, status_of
from medheb.fetch.located import also_of, files_of
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

log = logging.getLogger("medheb.build")


class NothingBuiltError(MedhebError):
    """A build that gave no file at all; ``refusals`` say why."""

    def __init__(self, where: str, fault: str, remedy: str, refusals: Sequence[Refusal]) -> None:
        super().__init__(where, fault, remedy)
        self.refusals = tuple(refusals)


@dataclass(frozen=True)
class Build:
    """One build: what is read, where the image folder goes, and whether the training part was asked for (if known)."""

    source: Source
    benchmark: Path
    training: bool | None = None

    @property
    def target(self) -> Path:
        """The image folder."""
        return self.benchmark / self.source.dataset.images

    @property
    def inventory(self) -> Path:
        """Header of the inventory in the final place."""
        return Layout(Path(), self.benchmark, Path()).inventory(self.source.dataset.images, self.source.dataset.id)

    @property
    def staging(self) -> Path:
        """Staging folder that all attempts at this very build share; another recipe or source gets another one."""
        source, entry = self.source, entry_of(self.source.dataset)
        key = json_digest(
            [
                source.dataset.model_dump(mode="json", include={"id", "recipe", "images", "files"}),
                source.protocol if entry.follows_protocol else None,
                source.projector if entry.follows_projector else None,
                [source.seed, os.fspath(source.files.absolute())],
                {name: os.fspath(path.absolute()) for name, path in sorted(source.others.items())},
                code_digest("medheb.build.work"),
                code_digest(entry.module),
            ]
        )
        return self.target.with_name(f".{self.target.name}{TEMPORARY_MARK}{key[:16]}")


def build_images(run: Run, dataset_id: str, workers: int = 1) -> Status:
    """Build one source. Always leaves an inventory; one whose status is not ok lists no files.

    The image folder is staged beside its place and renamed whole, inventory included: a killed run leaves the
    old folder, the new one, or none, and the next run goes on where it stopped.

    Raises:
        MedhebError: the source is not selected, shares its image folder, or has not been fetched yet.
    """
    dataset = _selected(run, dataset_id)
    status = _readable(run, dataset)
    inventory_path = run.layout.inventory(dataset.images, dataset_id)
    refusals: tuple[Refusal, ...] = ()
    if status.ok:
        try:
            return build(_build_of(run, dataset), workers)
        except MedhebError as error:
            status = status_of(error, f"build {dataset_id}")
            refusals = error.refusals if isinstance(error, NothingBuiltError) else ()
    log.warning("build %s: %s: %s. %s", dataset_id, status.state, status.reason, status.remedy)
    with atomic_folder(inventory_path.parent) as staging:
        write_inventory(staging / inventory_path.name, _inventory(dataset, None, status, refusals=refusals))
    return status


def build_shard(run: Run, dataset_id: str, shard: Shard, receipt: Path, workers: int = 1) -> Status:
    """Build a part of a source's units into the shared staging folder; :func:`build_images` gathers them.

    Args:
        run: the run.
        dataset_id: the source.
        shard: which part.
        receipt: small file that says how many units and files there are, written last.
        workers: processes.

    Raises:
        MedhebError: the source is not selected or has not been fetched yet.
    """
    dataset = _selected(run, dataset_id)
    status = _readable(run, dataset)
    units = files = refused = 0
    if status.ok:
        made = _build_of(run, dataset)
        try:
            recipe = recipe_of(dataset)
            mine = shard.of(sorted_units(recipe, made.source))
            for result in do_units(recipe, made.source, mine, made.staging, workers):
                units, files, refused = units + 1, files + len(result.files), refused + len(result.refusals)
            os.sync()
        except MedhebError as error:
            status = status_of(error, f"build {dataset_id}")
    counts = {"units": units, "files": files, "refused": refused}
    write_json(receipt, {"dataset": dataset_id, "shard": f"{shard.number + 1} of {shard.count}", **counts})
    log.info("build %s, shard %d of %d: %s", dataset_id, shard.number + 1, shard.count, counts)
    return status


def build_from(
    dataset: Dataset,
    files: Path,
    benchmark: Path,
    protocol: ProtocolName,
    projector: Projector,
    workers: int = 1,
    others: Mapping[str, Path] | None = None,
) -> Inventory:
    """Build one source from any folder, without a run: what ``medheb build ID --source --out`` does.

    Args:
        dataset: the manifest.
        files: folder of the download as its host lays it out, or a parent of it.
        benchmark: receives the canonical layout.
        protocol: ``release`` or ``corrected``.
        projector: for X-rays from CT.
        workers: processes.
        others: roots of required sources and further projects, where they do not lie in ``files``.

    Raises:
        MedhebError: the folder is not this source's, or nothing of it could be built. The inventory names what was
            refused then, unless an earlier build is there, which stays.
    """
    if not is_folder(files):
        raise MedhebError(files, "is not a folder", "Give the folder of the download with --source")
    made = Build(Source(dataset, files, protocol, projector, seed=Config().seed, others=others or {}), benchmark)
    try:
        build(made, workers)
    except NothingBuiltError as error:
        raise MedhebError(error.where, error.fault, _list_failure(made, error)) from error
    return read_inventory(made.inventory)


def _list_failure(made: Build, error: NothingBuiltError) -> str:
    """Leave an inventory of what was refused; the error's remedy, and where that inventory is."""
    if is_there(made.inventory) and read_header(made.inventory).status.ok:
        return f"{error.remedy}. The earlier build in {made.target} stays; a build into an empty --out lists all faults"
    status = status_of(error, f"build {made.source.dataset.id}")
    with atomic_folder(made.target) as staging:
        inventory = _inventory(made.source.dataset, None, status, refusals=error.refusals)
        write_inventory(staging / made.inventory.name, inventory)
    return f"{error.remedy}. {made.inventory} lists all that was refused"


def build(made: Build, workers: int = 1) -> Status:
    """Do all units that are not done yet, check them, write the inventory, rename.

    Raises:
        MedhebError: the source's folder is not as its recipe expects, or nothing came of it.
    """
    source, staging = made.source, made.staging
    recipe = recipe_of(source.dataset)
    units = sorted_units(recipe, source)
    _remove_leftovers(made.target, staging)
    files: dict[str, BuiltFile] = {}
    notes: list[str] = []
    counts: Counter[str] = Counter()
    refusals: list[Refusal] = []
    remarks: list[Remark] = []
    for result in do_units(recipe, source, units, staging, workers):
        for file in result.files:
            if file.path in files and files[file.path].content != file.content:
                raise MedhebError(
                    f"{source.dataset.id}: {shown(source, file.path)}",
                    "is made by two units, with different content",
                    "Remove the repeated file or row",
                )
            files.setdefault(file.path, file)
        counts.update(result.counts)
        notes += [note for note in result.notes if note not in notes]
        refusals += result.refusals
        remarks += result.remarks
    if not files:
        # Otherwise a mended source would meet the markers of its old refusals.
        shutil.rmtree(staging)
        raise _nothing(source, refusals)
    ordered = [files[path] for path in sorted(files, key=str.encode)]
    last = Output(staging, source.dataset.id)
    if recipe.finish:
        try:
            recipe.finish(source, ordered, last)
        except OSError as error:
            raise unreadable(error, source.dataset.id) from error
    notes += [f"{phrase}: {number:,}" for phrase, number in sorted((counts + last.counts).items())]
    refusals += last.refusals
    notes += totals(refusals, [*remarks, *last.remarks])
    everything = sorted([*ordered, *last.files.values()], key=lambda file: file.path.encode())
    notes += equals(duplicates_of(everything))
    inventory = _inventory(
        source.dataset,
        source.protocol if entry_of(source.dataset).follows_protocol else None,
        OK,
        tuple(everything),
        (*notes, *last.notes),
        tuple(refusals),
        (*remarks, *last.remarks),
    )
    _finish(made, recipe, inventory)
    log.info("build %s: %d files in %s, %d refused", source.dataset.id, len(everything), made.target, len(refusals))
    return OK


def _nothing(source: Source, refusals: list[Refusal]) -> NothingBuiltError:
    """Why a build gave no file at all."""
    name = source.dataset.id
    if not refusals:
        remedy = "Check recipe.options: nothing passed its limits"
        return NothingBuiltError(name, "gave no files", remedy, refusals)
    if not source.dataset.show_content:
        of_all = f"{len(refusals)} could not be used (its terms forbid to name them here)"
        fault = f"gave no files; {of_all}: {kinds_of(refusals)}"
        return NothingBuiltError(name, fault, commonest_remedy(refusals), refusals)
    first, more = refusals[0], len(refusals) - 1
    fault = first.fault + (f" (and {more} more that are no use)" if more else "")
    return NothingBuiltError(first.where, fault, first.remedy, refusals)


def _finish(made: Build, recipe: Recipe, inventory: Inventory) -> None:
    """Leave exactly the listed files in the staging folder, write the inventory, rename."""
    staging, dataset = made.staging, made.source.dataset
    listed = {file.path for file in inventory.files}
    _remove_unlisted(staging, listed)
    if recipe.links:
        recipe.links(made.source, made.benchmark, staging)
    source = made.source
    settings = settings_of(dataset, source.protocol, source.projector, made.training).named
    whole = inventory.model_copy(update={"settings": settings, "links": _links_of(staging)})
    write_inventory(staging / made.inventory.name, whole)
    link_places(made.benchmark, dataset, listed)
    shutil.rmtree(staging / MARKERS)
    # One flush for all: a flush for each of a hundred thousand small files would cost hours on a network disk.
    os.sync()
    target = made.target
    if target.exists():
        discarded = target.with_name(f".{target.name}{TEMPORARY_MARK}old.{os.getpid()}")
        os.replace(target, discarded)
        os.replace(staging, target)
        shutil.rmtree(discarded, ignore_errors=True)
    else:
        os.replace(staging, target)
    fsync_folder(target.parent)


def _remove_unlisted(staging: Path, listed: set[str]) -> None:
    """Files of units that a crash cut off, and folders that nothing is in."""
    for folder, _, names in os.walk(staging, topdown=False):
        if Path(folder).relative_to(staging).parts[:1] == (MARKERS,):
            continue
        for name in names:
            path = Path(folder) / name
            if path.relative_to(staging).as_posix() not in listed:
                path.unlink()
        if Path(folder) != staging and not os.listdir(folder):  # noqa: PTH208 - only whether it is empty
            Path(folder).rmdir()


def _selected(run: Run, dataset_id: str) -> Dataset:
    dataset = run.datasets.get(dataset_id)
    if dataset is None:
        raise MedhebError(dataset_id, "is not a source of this run", f"Allowed: {', '.join(run.datasets)}")
    _check_own_folder(run, dataset)
    return dataset


def _readable(run: Run, dataset: Dataset) -> Status:
    """The status of ``fetch``; of a source that needs others, the first that is not ok."""
    statuses = [read_status(run.layout.source_status(name)) for name in (dataset.id, *dataset.requires)]
    return next((status for status in statuses if not status.ok), OK)


def _build_of(run: Run, dataset: Dataset) -> Build:
    others = {name: files_of(run, run.datasets[name]) for name in dataset.requires} | also_of(run, dataset)
    source = Source(
        dataset,
        files_of(run, dataset),
        run.config.protocol,
        projector=run.config.drr.chosen(run.config.protocol),
        deepdrr_python=run.config.drr.python,
        seed=run.config.seed,
        others=others,
    )
    return Build(source, run.layout.benchmark, run.config.trains(dataset.id))


def _inventory(
    dataset: Dataset,
    protocol: str | None,
    status: Status,
    files: tuple[BuiltFile, ...] = (),
    notes: tuple[str, ...] = (),
    refusals: tuple[Refusal, ...] = (),
    remarks: tuple[Remark, ...] = (),
) -> Inventory:
    return Inventory(
        dataset=dataset.id,
        images=dataset.images,
        recipe=dataset.recipe.name,
        recipe_version=dataset.recipe.version,
        protocol=protocol,
        status=status,
        files=files,
        notes=notes,
        refusals=refusals,
        remarks=remarks,
    )


def _links_of(folder: Path) -> dict[str, str]:
    """Links directly in a folder, by name: where each leads."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_symlink())
    return {name: os.readlink(folder / name) for name in names}  # noqa: PTH115 - the text of the link


def _check_own_folder(run: Run, dataset: Dataset) -> None:
    own = Path(dataset.images)
    for other in run.datasets.values():
        folder = Path(other.images)
        if other.id != dataset.id and (folder == own or own in folder.parents or folder in own.parents):
            raise MedhebError(
                f"manifest of {dataset.id}",
                f"key 'images' is {dataset.images}, which overlaps with that of {other.id} ({other.images})",
                "Give each source its own folder",
            )


def _remove_leftovers(target: Path, staging: Path) -> None:
    """Staging folders of other attempts at ``target``. Its parent also holds those of other, running jobs."""
    for entry in sorted(target.parent.glob(f".{target.name}{TEMPORARY_MARK}*")):
        if entry != staging:
            shutil.rmtree(entry, ignore_errors=True)
