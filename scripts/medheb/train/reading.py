"""Batches decoded ahead of the network, in worker processes of torch's loader."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from torch.utils.data import DataLoader, Dataset

from medheb.core.errors import MedhebError
from medheb.embed.reading import BUILD_AGAIN, decoded
from medheb.models.base import Adapter, ImageRef, Prepared
from medheb.train.plan import Batched
from medheb.train.rows import BadRowError, line_at, parse

AHEAD = 2  # batches of each worker


@dataclass(frozen=True)
class TrainingImages:
    """Reads a picture by its path from the benchmark's folder."""

    benchmark: Path

    def __call__(self, ref: ImageRef) -> Image.Image:
        """The decoded picture.

        Raises:
            MedhebError: it cannot be read or decoded.
        """
        path = self.benchmark / ref.path
        try:
            return decoded(path, path.read_bytes())
        except OSError as error:
            raise MedhebError(path, f"cannot be read ({error.strerror})", BUILD_AGAIN) from error


@dataclass(frozen=True)
class ReadBatch:
    """One rank's batch.

    Args:
        queries: prepared, one a pair.
        targets: prepared, one a pair.
        keys: numbers of the targets' contents.
        names: file and byte of each pair.
        skipped: name and fault of each pair that could not be read.
    """

    queries: tuple[Prepared, ...]
    targets: tuple[Prepared, ...]
    keys: tuple[int, ...]
    names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]


class Reading(Dataset[ReadBatch]):
    """Batches by number; picklable, since it goes to worker processes.

    Args:
        plan: where each pair lies.
        todo: the pairs of each batch that this rank takes.
        rows: folder of the training files.
        benchmark: folder of the pictures.
        adapter: what prepares a side.
    """

    def __init__(
        self, plan: Batched, todo: Sequence[Sequence[int]], rows: Path, benchmark: Path, adapter: Adapter
    ) -> None:
        files = plan.plan.files
        self._todo = [
            [
                (
                    str(rows / files[plan.file[pair]].name),
                    plan.offset[pair],
                    files[plan.file[pair]].volumes,
                    plan.name(pair),
                )
                for pair in batch
            ]
            for batch in todo
        ]
        self._images = TrainingImages(benchmark)
        self._adapter = adapter

    def __len__(self) -> int:
        return len(self._todo)

    def __getitem__(self, number: int) -> ReadBatch:
        """Batch ``number``; what cannot be read is named, not raised, so that the others are trained on."""
        queries: list[Prepared] = []
        targets: list[Prepared] = []
        keys: list[int] = []
        names: list[str] = []
        skipped: list[tuple[str, str]] = []
        for path, offset, volumes, name in self._todo[number]:
            try:
                pair, _ = parse(line_at(Path(path), offset), volumes)
                query, target = pair.rendered(self._adapter)
                both = self._adapter.prepare(query, self._images), self._adapter.prepare(target, self._images)
            except MedhebError as error:
                skipped.append((name, f"{error.where} {error.fault}"))
                continue
            except BadRowError as error:
                skipped.append((name, str(error)))
                continue
            queries.append(both[0])
            targets.append(both[1])
            keys.append(pair.target_key)
            names.append(name)
        return ReadBatch(tuple(queries), tuple(targets), tuple(keys), tuple(names), tuple(skipped))


def read_ahead(reading: Reading, workers: int) -> Iterator[ReadBatch]:
    """Batches in their order, decoded in ``workers`` processes; 0 decodes in this one."""
    more: dict[str, Any] = {}
    if workers:
        more = {"multiprocessing_context": "spawn", "prefetch_factor": AHEAD, "persistent_workers": False}
    loader: DataLoader[ReadBatch] = DataLoader(
        reading, batch_size=None, shuffle=False, num_workers=workers, collate_fn=_as_is, worker_init_fn=_deaf, **more
    )
    yield from loader


def _deaf(_: int) -> None:
    """A worker goes on when all processes of the job are asked to end: its death would cost the checkpoint."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _as_is(batch: Any) -> Any:
    return batch
