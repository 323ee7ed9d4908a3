"""The ``build`` step: one source -> its image folder with an inventory, both in one rename."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.build.recipe import RecipeContext, RecipeResult
from medheb.build.registry import recipe_of
from medheb.core.digests import content_digest, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import TEMPORARY_MARK, atomic_folder
from medheb.core.status import OK, Status, read_status, status_of
from medheb.fetch.located import files_of
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

log = logging.getLogger("medheb.build")


def build_images(run: Run, dataset_id: str) -> Status:
    """Build one source. Always leaves an inventory; one whose status is not ok lists no files.

    The image folder is staged beside its place and renamed whole, inventory included: a killed run leaves the
    old folder, the new one, or none, and the next run cleans up what is left of it.

    Raises:
        MedhebError: the source is not selected, shares its image folder, or has not been fetched yet.
    """
    dataset = run.datasets.get(dataset_id)
    if dataset is None:
        raise MedhebError(dataset_id, "is not a source of this run", f"Allowed: {', '.join(run.datasets)}")
    _check_own_folder(run, dataset)
    inventory_path = run.layout.inventory(dataset.images, dataset_id)
    _remove_leftovers(inventory_path.parent)
    status = read_status(run.layout.source_status(dataset_id))
    if status.ok:
        status = _build(run, dataset, inventory_path)
    if not status.ok:
        log.warning("build %s: %s: %s. %s", dataset_id, status.state, status.reason, status.remedy)
        with atomic_folder(inventory_path.parent) as staging:
            write_inventory(staging / inventory_path.name, _inventory(dataset, status, (), ()))
    return status


def _build(run: Run, dataset: Dataset, inventory_path: Path) -> Status:
    """Run the recipe; its refusals become a status."""
    try:
        with atomic_folder(inventory_path.parent) as staging:
            context = RecipeContext(dataset, files_of(run, dataset), staging)
            result = recipe_of(dataset).function(context)
            files = _measure(dataset.id, staging, result)
            write_inventory(staging / inventory_path.name, _inventory(dataset, OK, files, tuple(result.notes)))
    except MedhebError as error:
        return status_of(error, f"build {dataset.id}")
    log.info("build %s: %d files in %s", dataset.id, len(files), inventory_path.parent)
    return OK


def _inventory(dataset: Dataset, status: Status, files: tuple[BuiltFile, ...], notes: tuple[str, ...]) -> Inventory:
    return Inventory(
        dataset=dataset.id,
        images=dataset.images,
        recipe=dataset.recipe.name,
        recipe_version=dataset.recipe.version,
        status=status,
        files=files,
        notes=notes,
    )


def _measure(dataset_id: str, staging: Path, result: RecipeResult) -> tuple[BuiltFile, ...]:
    """Digest what lies in the staging folder, which must be exactly what the recipe says it wrote.

    Raises:
        MedhebError: nothing was written, or folder and result differ.
    """
    found = {path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()}
    if not found:
        raise MedhebError(dataset_id, "gave no files", "Check recipe.options: nothing passed its limits")
    if odd := sorted(found.symmetric_difference(result.files)):
        raise MedhebError(dataset_id, f"wrote and listed different files, such as {odd[0]}", "Mend the recipe")
    files = []
    for path in sorted(found, key=lambda name: name.encode()):
        content = (staging / path).read_bytes()
        files.append(
            BuiltFile(
                path=path,
                bytes=len(content),
                sha256=sha256_bytes(content),
                content=content_digest(Path(path), content),
                facts=dict(result.files[path]),
            )
        )
    return tuple(files)


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


def _remove_leftovers(target: Path) -> None:
    """Staging folders of killed attempts at ``target``. Its parent also holds those of other, running jobs."""
    for entry in sorted(target.parent.glob(f".{target.name}{TEMPORARY_MARK}*")):
        shutil.rmtree(entry, ignore_errors=True)
