"""Verdict over the built files of one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medheb.audit.claims import read_claims
from medheb.audit.judge import Digests, Verdicts, judge, survey
from medheb.audit.measure import Measured, measure_all
from medheb.audit.places import judge_places
from medheb.audit.privacy import may_show
from medheb.audit.sample import to_read
from medheb.audit.schema import (
    FileDigests,
    SourceRecord,
    exact_root,
    private_record_path,
    read_source_record,
    source_roots,
)
from medheb.audit.tree import Kind, list_tree, not_of_source, overlapping, through_links
from medheb.audit.verdicts import CheckedLevel, Unit, Verdict, unit_of
from medheb.build.inventory import read_header
from medheb.core.digests import merkle_root
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run


@dataclass(frozen=True)
class Depth:
    """How closely files are looked at.

    Args:
        level: L1 hashes bytes; L2 also decodes.
        workers: threads that hash and decode.
        seed: of the sample of a fast check; None reads everything.
    """

    level: CheckedLevel
    workers: int
    seed: int | None = None

    @property
    def fast(self) -> bool:
        """True if most files are not read."""
        return self.seed is not None


def verify_source(run: Run, record: SourceRecord, depth: Depth) -> Unit:
    """Compare the image folder of a source with its record; a fast check counts what it did not read."""
    dataset = record.dataset
    # What is extra in a shared folder may belong to a source that must not be shown.
    withheld = record.withheld or not may_show(run, [dataset, *overlapping(run, dataset)])
    expected: Mapping[str, Digests] | None = {path: _digests(digests) for path, digests in record.files.items()}
    if record.withheld and record.state == "built":
        expected = _private_digests(run, record)
    excused = not_of_source(run, dataset)
    benchmark, folder = run.layout.benchmark, run.datasets[dataset].images
    present = {
        path: kind
        for path, kind in list_tree(benchmark, folder).items()
        if path not in excused or path in (expected or {})
    }
    if expected is None:
        return _verify_whole(run, record, present, depth)
    present = through_links(benchmark, folder, _links(run, dataset), present, expected)
    if not depth.fast:
        verdicts = judge(
            expected, present, survey(benchmark, expected, present, depth.level, depth.workers), depth.level
        )
        unread = 0
    else:
        verdicts, unread = _judge_sample(run, expected, present, depth, dataset)
    verdicts |= judge_places(run, dataset, expected, depth.level, depth.workers)
    if record.state == "not-built":
        verdicts[dataset] = ("NOT-BUILT", record.reason)
        return unit_of("source", dataset, verdicts, withheld=withheld, reason=record.reason)
    return unit_of("source", dataset, verdicts, withheld=withheld, unread=unread)


def _judge_sample(
    run: Run, expected: Mapping[str, Digests], present: Mapping[str, Kind], depth: Depth, name: str
) -> tuple[Verdicts, int]:
    """Verdicts over sampled, absent and extra files, and how many others have the recorded size."""
    benchmark = run.layout.benchmark
    read = to_read(benchmark, expected, present, depth.seed or 0, name)
    unread = {path for path in expected if present.get(path) == "file" and path not in read}
    closer = {path: digests for path, digests in expected.items() if path not in unread}
    there = {path: kind for path, kind in present.items() if path not in unread}
    tolerant = frozenset(path for path in read if expected[path].L3 is not None)
    measured = measure_all(benchmark, read, depth.level, depth.workers, tolerant)
    return judge(closer, there, measured, depth.level), len(unread)


def _digests(digests: FileDigests) -> Digests:
    return Digests(digests.L1, digests.L2, digests.L3, digests.bytes)


def _links(run: Run, dataset: str) -> dict[str, str]:
    """Links that the inventory on this machine vouches for; what they lead to is judged like any file."""
    try:
        return read_header(run.layout.inventory(run.datasets[dataset].images, dataset)).links
    except (MedhebError, OSError, RecursionError):
        return {}


def _private_digests(run: Run, record: SourceRecord) -> dict[str, Digests] | None:
    """Digests of a withheld source from what lies on this machine, if the recorded roots vouch for them.

    That is the full record beside the audit folder, where a tolerance is declared, else the inventory.
    """
    try:
        private = read_source_record(private_record_path(run.layout, record.dataset))
        claimed = {path: _digests(digests) for path, digests in private.files.items()}
        if _vouched(claimed, record):
            return claimed
    except MedhebError:
        pass  # it is written only where a tolerance is declared
    try:
        claims = read_claims(run.layout.inventory(run.datasets[record.dataset].images, record.dataset))
    except (MedhebError, OSError, RecursionError):
        return None
    same_folder = claims.header.images == run.datasets[record.dataset].images
    return claims.digests if same_folder and _vouched(claims.digests, record) else None


def _vouched(claimed: Mapping[str, Digests], record: SourceRecord) -> bool:
    tolerant = {path: digests.L3 for path, digests in claimed.items() if digests.L3 is not None}
    return (
        merkle_root({path: digests.L1 for path, digests in claimed.items()}) == record.roots.get("L1")
        and merkle_root({path: digests.L2 for path, digests in claimed.items()}) == record.roots.get("L2")
        and (not tolerant or merkle_root(tolerant) == record.roots.get("L3"))
    )


def _tolerant(run: Run, record: SourceRecord) -> frozenset[str]:
    """Pictures for which the inventory here declares a tolerance."""
    try:
        return read_claims(run.layout.inventory(run.datasets[record.dataset].images, record.dataset)).tolerant
    except (MedhebError, OSError, RecursionError):
        return frozenset()


def _digests_of(found: Measured) -> FileDigests:
    return FileDigests(bytes=found.bytes, L1=found.L1, L2=found.L2 or "", L3=found.L3)


def _by_roots(record: SourceRecord, files: Mapping[str, FileDigests]) -> tuple[Verdict, str]:
    """Verdict over contents by recorded roots, and what more is known."""
    roots = source_roots({}, files)
    if roots["L2"] == record.roots.get("L2"):
        return "EQUIVALENT", ""
    if record.exact is None or exact_root(files) != record.exact:
        return "MISMATCH", ""
    words = "; all without a declared tolerance are as recorded"
    if roots.get("L3") == record.roots.get("L3"):
        return "WITHIN-TOLERANCE", f"{words}, and so are the block means of all radiographs"
    return "MISMATCH", f"{words}; radiographs differ, and roots cannot tell whether within the tolerance"


def _verify_whole(run: Run, record: SourceRecord, present: Mapping[str, Kind], depth: Depth) -> Unit:
    """One verdict over all files of a withheld source whose digests cannot be trusted: by its roots alone."""
    paths = [path for path, kind in present.items() if kind == "file"]
    odd = [path for path, kind in present.items() if kind not in {"file", "folder"}]
    why = "by its roots alone, since the inventory here is not the recorded one"
    counted = f"{record.file_count} files recorded, {len(paths)} here"
    tolerant = _tolerant(run, record) if "L3" in record.roots else frozenset()
    measured = measure_all(run.layout.benchmark, paths, depth.level, depth.workers, tolerant)
    found = {path: item for path, item in measured.items() if isinstance(item, Measured)}
    verdict: Verdict = "MISMATCH"
    if odd or len(found) != len(paths):
        verdict = "UNREADABLE"
    elif merkle_root({path: item.L1 for path, item in found.items()}) == record.roots.get("L1"):
        verdict = "IDENTICAL"
    elif depth.level == "L2":
        verdict, more = _by_roots(record, {path: _digests_of(item) for path, item in found.items()})
        counted += more
    number = max(len(paths) + len(odd), 1)
    return Unit(
        area="source",
        name=record.dataset,
        verdict=verdict,
        reason=f"{why}; {counted}",
        withheld=True,
        counts={verdict: number},
    )
