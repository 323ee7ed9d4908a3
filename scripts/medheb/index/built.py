"""Inventories as the index step takes them: only those of this run's protocol and of the recipe in the manifest."""

from __future__ import annotations

from pathlib import Path

from medheb.build.inventory import Inventory, read_inventory
from medheb.core.digests import merkle_root
from medheb.core.errors import MedhebError
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.task import Task


def inventories_of(run: Run, task: Task) -> list[tuple[Dataset, Inventory]]:
    """The sources of a task with what was built of them, in the order of its row.

    Raises:
        MedhebError: a source has not been built, or its inventory is of another layout version, recipe version or
            protocol.
    """
    return [(run.datasets[name], built(run, run.datasets[name])) for name in task.sources]


def built(run: Run, dataset: Dataset) -> Inventory:
    """The inventory of a source.

    Raises:
        MedhebError: there is none, or it is of another layout version, source, recipe version or protocol; both are
            named.
    """
    path = run.layout.inventory(dataset.images, dataset.id)
    if not path.exists():
        own = f"medheb build {dataset.id} --source FOLDER --out {run.layout.benchmark}"
        raise MedhebError(path, f"is missing: source {dataset.id} has not been built", f"Run the workflow, or `{own}`")
    inventory = read_inventory(path)
    require_fit(inventory, dataset, run.config.protocol, path)
    return inventory


def require_fit(inventory: Inventory, dataset: Dataset, protocol: str, path: Path) -> None:
    """Refuse an inventory that belongs to something else than the run.

    Raises:
        MedhebError: names what it is of and what the run needs.
    """
    remedy = f"Run `medheb rebuild {dataset.id}`, then the workflow"
    for what, stands, wanted in (
        ("source", inventory.dataset, dataset.id),
        ("recipe", inventory.recipe, dataset.recipe.name),
        ("recipe version", inventory.recipe_version, dataset.recipe.version),
        # Null: the recipe makes the same under each protocol.
        ("protocol", inventory.protocol or protocol, protocol),
    ):
        if stands != wanted:
            also = f", or give `--protocol {stands}`" if what == "protocol" else ""
            raise MedhebError(path, f"is of {what} {stands}, but this run has {what} {wanted}", remedy + also)


def data_root(run: Run, task: Task) -> str:
    """Merkle root over the L2 digests of all files of the task's sources."""
    digests: dict[str, str] = {}
    for source in task.sources:
        inventory = read_inventory(run.layout.inventory(run.datasets[source].images, source))
        digests |= {f"{inventory.images}/{file.path}": file.content for file in inventory.files}
    return merkle_root(digests)
