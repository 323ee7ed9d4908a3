"""Record the digests of one source: hash every built file anew, then hold the inventory against it."""

from __future__ import annotations

from medheb.audit.judge import Digests, judge, survey
from medheb.audit.measure import Measured
from medheb.audit.origin import archive_digests
from medheb.audit.privacy import may_show, public_reason
from medheb.audit.schema import FileDigests, SourceRecord, private_record_path, record_path, source_roots
from medheb.audit.tolerance import TOLERANT_PROJECTORS
from medheb.audit.tree import list_tree, not_of_source, overlapping, through_links
from medheb.build.inventory import Inventory, read_inventory
from medheb.core.digests import sha256sums
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_json, write_text
from medheb.manifest.load import Run


def record_digests(run: Run, dataset: str, workers: int = 1) -> None:
    """Write ``audit/<dataset>/``: ``digests.json``, and ``SHA256SUMS`` if the source is built and may be shown.

    A source that may not be shown and declares a tolerance also gets a full record beside the audit folder, which must
    not leave the machine: without it nobody could say whether pictures made elsewhere are within tolerance.

    The same files give the same bytes, whatever the machine, the order on disk or the number of workers.

    Raises:
        MedhebError: the inventory is missing or damaged, or what lies on disk differs from it.
    """
    manifest = run.datasets[dataset]
    inventory = read_inventory(run.layout.inventory(manifest.images, dataset))
    built = inventory.status.ok
    files = _hash_built(run, dataset, inventory, workers) if built else {}
    archives = archive_digests(run, dataset) if built else {}
    shown = may_show(run, [dataset])
    record = SourceRecord(
        dataset=dataset,
        state="built" if built else "not-built",
        reason=public_reason(run, [dataset], inventory.status.reason),
        remedy=public_reason(run, [dataset], inventory.status.remedy),
        withheld=not shown,
        recipe=inventory.recipe,
        recipe_version=inventory.recipe_version,
        file_count=len(files),
        archive_count=len(archives),
        roots=source_roots(archives, files) if built else {},
        archives=archives if shown else {},
        files=files if shown else {},
    )
    target = record_path(run.layout, dataset)
    with atomic_folder(target.parent) as staging:
        if built and shown:
            write_text(staging / "SHA256SUMS", sha256sums({path: digests.L1 for path, digests in files.items()}))
        write_json(staging / target.name, record.model_dump(exclude_none=True))
    private = private_record_path(run.layout, dataset)
    if built and not shown and "L3" in record.roots:
        full = record.model_copy(update={"archives": archives, "files": files, "withheld": False})
        write_json(private, full.model_dump(exclude_none=True))
    else:
        private.unlink(missing_ok=True)


def inventory_digests(inventory: Inventory) -> dict[str, Digests]:
    """What an inventory claims, by path from the benchmark folder."""
    return {
        f"{inventory.images}/{file.path}": Digests(file.sha256, file.content, None, file.bytes)
        for file in inventory.files
    }


def _hash_built(run: Run, dataset: str, inventory: Inventory, workers: int) -> dict[str, FileDigests]:
    """Digests of all files of a built source.

    Raises:
        MedhebError: a difference between disk and inventory.
    """
    manifest = run.datasets[dataset]
    where = run.layout.inventory(manifest.images, dataset)
    if inventory.images != manifest.images or inventory.dataset != dataset:
        raise MedhebError(where, f"is about {inventory.dataset} in {inventory.images}", _rebuild(dataset))
    claimed = _with_tolerance(inventory)
    excused = not_of_source(run, dataset)
    present = {
        path: kind
        for path, kind in list_tree(run.layout.benchmark, manifest.images).items()
        if path in claimed or path not in excused
    }
    present = through_links(run.layout.benchmark, manifest.images, inventory.links, present, claimed)
    measured = survey(run.layout.benchmark, claimed, present, "L2", workers)
    verdicts = judge(claimed, present, measured, "L2")
    bad = sorted(path for path, (verdict, _) in verdicts.items() if verdict != "IDENTICAL")
    if bad:
        verdict, reason = verdicts[bad[0]]
        _refuse(run, dataset, bad[0], f"{verdict}: {reason}", len(bad))
    sizes = {f"{inventory.images}/{file.path}": file.bytes for file in inventory.files}
    files: dict[str, FileDigests] = {}
    for path, found in measured.items():
        if not isinstance(found, Measured) or found.L2 is None:
            raise AssertionError(f"{path} was judged identical without digests")
        if found.bytes != sizes[path]:
            _refuse(run, dataset, path, f"MISMATCH: has {found.bytes} bytes, not {sizes[path]}", 1)
        files[path] = FileDigests(bytes=found.bytes, L1=found.L1, L2=found.L2, L3=found.L3)
    return files


def _with_tolerance(inventory: Inventory) -> dict[str, Digests]:
    """What an inventory claims, its pictures from a tolerant projector marked: an L3 that is not known yet."""
    claimed = inventory_digests(inventory)
    for file in inventory.files:
        if file.facts.get("projector") in TOLERANT_PROJECTORS:
            path = f"{inventory.images}/{file.path}"
            claimed[path] = claimed[path]._replace(L3="")
    return claimed


def _refuse(run: Run, dataset: str, path: str, problem: str, number: int) -> None:
    remedy = _rebuild(dataset)
    if not may_show(run, [dataset, *overlapping(run, dataset)]):
        raise MedhebError(f"source {dataset}", f"{number} files differ from its inventory", remedy)
    more = f" ({number - 1} more files differ)" if number > 1 else ""
    raise MedhebError(run.layout.benchmark / path, f"differs from the inventory of {dataset}, {problem}{more}", remedy)


def _rebuild(dataset: str) -> str:
    return f"Delete the source's image folder and build it again: snakemake dataset_{dataset}"
