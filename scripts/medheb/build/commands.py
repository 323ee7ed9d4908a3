"""What ``medheb build`` does beyond one source of a run."""

from __future__ import annotations

from pathlib import Path

from medheb.build.run import build_from, build_shard
from medheb.build.source import Projector, ProtocolName
from medheb.build.telling import lines_of
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.core.shards import Shard
from medheb.core.status import Status
from medheb.manifest.config import Drr
from medheb.manifest.load import Run


def build_command(run: Run, dataset: str, shard: Shard, receipt: Path | None, workers: int) -> Status:
    """Build one shard and leave its receipt.

    Raises:
        MedhebError: no receipt was named.
    """
    if receipt is None:
        raise MedhebError("medheb build --shard", "has no --receipt", "Name the file that says that the shard is done")
    return build_shard(run, dataset, shard, receipt, workers)


def build_folder(
    run: Run,
    dataset: str,
    source: Path,
    out: Path,
    protocol: ProtocolName | None,
    projector: Projector | None,
    workers: int,
) -> None:
    """Build one source from any folder and print what came of it.

    Names of cases go to the terminal only; of sources that may not be shown, kinds of faults and their numbers.

    Raises:
        MedhebError: no such source, or nothing could be built.
    """
    manifest = run.datasets.get(dataset)
    if manifest is None:
        raise MedhebError(dataset, "is not a source", f"Allowed: {', '.join(run.datasets)}")
    protocol = protocol or run.config.protocol
    projector = projector or Drr().chosen(protocol)
    inventory = build_from(manifest, source, out, protocol, projector, workers)
    print(f"{dataset}: {len(inventory.files)} files in {out / manifest.images} (protocol {protocol})")
    for note in inventory.notes:
        print(f"note: {note}")
    for line in lines_of(inventory, manifest.show_content):
        print(line)
    path = Layout(Path(), out, Path()).inventory(manifest.images, dataset)
    closed = "" if manifest.show_content else "; its terms forbid to name cases here, it names them"
    print(f"inventory: {path}{closed}")
