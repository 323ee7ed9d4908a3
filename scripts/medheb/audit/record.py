"""Record the digests of one source: hash every built file anew, then hold the inventory against it."""

from __future__ import annotations

from medheb.audit.claims import Claims, read_claims
from medheb.audit.judge import judge, survey
from medheb.audit.measure import Measured
from medheb.audit.origin import archive_digests
from medheb.audit.privacy import may_show, public_reason
from medheb.audit.schema import FileDigests, SourceRecord, exact_root, private_record_path, record_path, source_roots
from medheb.audit.tree import list_tree, not_of_source, overlapping, through_links
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
    claims = read_claims(run.layout.inventory(manifest.images, dataset))
    header = claims.header
    built = header.status.ok
    files = _hash_built(run, dataset, claims, workers) if built else {}
    del claims
    archives = archive_digests(run, dataset) if built else {}
    shown = may_show(run, [dataset])
    record = SourceRecord(
        dataset=dataset,
        state="built" if built else "not-built",
        reason=public_reason(run, [dataset], header.status.reason),
        remedy=public_reason(run, [dataset], header.status.remedy),
        withheld=not shown,
        images=manifest.images if shown else "",
        recipe=header.recipe,
        recipe_version=header.recipe_version,
        settings=header.settings,
        file_count=len(files),
        archive_count=len(archives),
        roots=source_roots(archives, files) if built else {},
        exact=exact_root(files),
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


def _hash_built(run: Run, dataset: str, claims: Claims, workers: int) -> dict[str, FileDigests]:
    """Digests of all files of a built source.

    Raises:
        MedhebError: a difference between disk and inventory.
    """
    manifest = run.datasets[dataset]
    where = run.layout.inventory(manifest.images, dataset)
    header = claims.header
    if header.images != manifest.images or header.dataset != dataset:
        raise MedhebError(where, f"is about {header.dataset} in {header.images}", _rebuild(dataset))
    # An L3 that is not known yet marks the pictures of a tolerant projector.
    claimed = claims.digests | {path: claims.digests[path]._replace(L3="") for path in claims.tolerant}
    excused = not_of_source(run, dataset)
    present = {
        path: kind
        for path, kind in list_tree(run.layout.benchmark, manifest.images).items()
        if path in claimed or path not in excused
    }
    present = through_links(run.layout.benchmark, manifest.images, header.links, present, claimed)
    measured = survey(run.layout.benchmark, claimed, present, "L2", workers)
    verdicts = judge(claimed, present, measured, "L2")
    bad = sorted(path for path, (verdict, _) in verdicts.items() if verdict != "IDENTICAL")
    if bad:
        verdict, reason = verdicts[bad[0]]
        _refuse(run, dataset, bad[0], f"{verdict}: {reason}", len(bad))
    files: dict[str, FileDigests] = {}
    for path, found in measured.items():
        if not isinstance(found, Measured) or found.L2 is None:
            raise AssertionError(f"{path} was judged identical without digests")
        was = claimed[path]
        if found.bytes != was.bytes:
            _refuse(run, dataset, path, f"MISMATCH: has {found.bytes} bytes, not {was.bytes}", 1)
        # Judged identical: the claimed texts stand for the measured ones, which need not be kept beside them.
        files[path] = FileDigests(bytes=found.bytes, L1=was.L1, L2=was.L2, L3=found.L3)
    return files


def _refuse(run: Run, dataset: str, path: str, problem: str, number: int) -> None:
    remedy = _rebuild(dataset)
    if not may_show(run, [dataset, *overlapping(run, dataset)]):
        raise MedhebError(f"source {dataset}", f"{number} files differ from its inventory", remedy)
    more = f" ({number - 1} more files differ)" if number > 1 else ""
    raise MedhebError(run.layout.benchmark / path, f"differs from the inventory of {dataset}, {problem}{more}", remedy)


def _rebuild(dataset: str) -> str:
    return f"Delete the source's image folder and build it again: snakemake dataset_{dataset}"
