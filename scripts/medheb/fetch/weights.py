"""Weights of a model that lie in a repository of the hub or in a folder of the user: fetched, digested, recorded.

A repository without a pinned commit is pinned at its first fetch: what came stays, until its lock says otherwise
(`medheb refresh weights_<model>_base`). A user's own folder is read in place.
"""

from __future__ import annotations

import logging
import os

from medheb.core.digests import sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.fetch.complete import read_complete
from medheb.fetch.delivery import deliver
from medheb.fetch.follow import follow_lock
from medheb.fetch.found_weights import (
    FoundFile,
    FoundFolder,
    FoundWeights,
    own_files,
    own_folder,
    read_found,
    record_of,
    weights_source,
)
from medheb.fetch.lock import lock_file, read_lock
from medheb.fetch.remote import client_for
from medheb.manifest.dataset import Dataset, Recipe
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.weights import FolderWeights, HubWeights

LOG = logging.getLogger("medheb.fetch")


def as_source(run: Run, model: Model, slot: str, weights: HubWeights, *, pinned: bool = True) -> Dataset:
    """A repository as the fetch code takes it: a source that is fetched and never built.

    Args:
        run: with its lock, and with what was fetched before.
        model: whose weights they are.
        slot: ``base`` or ``lora``.
        weights: the repository.
        pinned: where the manifest names no commit, ask for that of the lock or of what came before.
    """
    name = weights_source(model.id, slot)
    return Dataset(
        id=name,
        title=f"Weights of {model.title} ({slot})",
        form="text",
        modality=("Model weights",),
        access="gated" if weights.gate == "terms" else "open",
        licence=weights.licence,
        redistribution=False,
        show_content=True,
        host=weights.host.model_copy(
            update={"revision": weights.revision or (_pinned(run, name, weights) if pinned else None)}
        ),
        files=(),
        files_note="listed by the hub, with the digests of all large files",
        download_bytes=weights.download_bytes,
        recipe=Recipe(name="none", version=1),
        images=f"Model_Weights/{name}",
        links=(weights.page,),
        citation=model.facts.citation or weights.page,
    )


def with_weights(run: Run) -> Run:
    """The run with the repositories of its models among its sources: for `medheb refresh`."""
    return run.with_sources(
        {
            weights_source(model.id, slot): as_source(run, model, slot, weights, pinned=False)
            for model in run.models.values()
            for slot, weights in model.folders().items()
            if isinstance(weights, HubWeights)
        }
    )


def _pinned(run: Run, name: str, weights: HubWeights) -> str | None:
    """The commit of the lock, else of what was fetched before."""
    lock = read_lock(lock_file(run, name))
    if lock is not None and lock.revision:
        return lock.revision
    try:
        host = read_complete(run.layout.source_files(name).with_name("COMPLETE.json")).host
    except MedhebError:
        return None
    same = host.kind == "huggingface" and (host.repository, host.include) == (weights.repository, weights.include)
    return host.revision if host.kind == "huggingface" and same else None


def fetch_weights(run: Run, model: Model) -> None:
    """Make all folders of weights of a model complete, and record what is in them.

    Raises:
        BlockedError: terms, token, network, or a folder that is not there.
        MedhebError: a folder without usable weights.
    """
    found = {
        slot: _from_hub(run, model, slot, weights)
        if isinstance(weights, HubWeights)
        else _own(run, model, slot, weights)
        for slot, weights in model.folders().items()
    }
    if found:
        write_json(record_of(run.layout, model.id), FoundWeights(folders=found).model_dump(mode="json"))


def _from_hub(run: Run, model: Model, slot: str, weights: HubWeights) -> FoundFolder:
    source = as_source(run, model, slot, weights)
    known = run.with_sources({source.id: source})
    follow_lock(known, source.id)
    host = source.host
    if host.kind == "huggingface" and host.revision is None:
        revision = _main(source)
        if weights.seen and not revision.startswith(weights.seen):
            LOG.warning("%s: main is now %s; others evaluated %s...", source.id, revision, weights.seen)
        source = source.model_copy(update={"host": host.model_copy(update={"revision": revision})})
    deliver(known, source)
    folder = run.layout.source_files(source.id)
    complete = read_complete(folder.with_name("COMPLETE.json"))
    files = tuple(
        FoundFile(path=member.path, bytes=member.bytes, modified_ns=0, sha256=member.sha256)
        for member in complete.members
    )
    commit = complete.host.revision if complete.host.kind == "huggingface" else None
    return FoundFolder(folder=str(folder), repository=weights.repository, revision=commit, files=files)


def _main(source: Dataset) -> str:
    listed = client_for(source.host.kind).listing(source, source.host)
    if not listed:
        raise MedhebError(source.id, "its repository has none of the wanted files", "Look at its page, correct include")
    return listed[0].address.partition(":")[0]


def _own(run: Run, model: Model, slot: str, weights: FolderWeights) -> FoundFolder:
    folder = own_folder(model.id, weights)
    before = _before(run.layout, model.id, slot)
    files: list[FoundFile] = []
    for name, path in own_files(folder).items():
        facts = path.stat()
        seen = before.get(name)
        same = seen is not None and (seen.bytes, seen.modified_ns) == (facts.st_size, facts.st_mtime_ns)
        digest = seen.sha256 if seen is not None and same else sha256_file(path)
        files.append(FoundFile(path=name, bytes=facts.st_size, modified_ns=facts.st_mtime_ns, sha256=digest))
    if not files:
        raise MedhebError(folder, f"holds no weights of model {model.id}", weights.remedy or "Put them there")
    return FoundFolder(folder=os.fspath(folder), files=tuple(files))


def _before(layout: Layout, model: str, slot: str) -> dict[str, FoundFile]:
    try:
        record = read_found(layout, model).folders.get(slot)
    except MedhebError:
        return {}
    return {file.path: file for file in record.files} if record else {}
