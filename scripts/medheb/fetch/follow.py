"""Before a fetch: if a newer lock says that the host's content changed, what came earlier no longer counts."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection

from medheb.core.errors import MedhebError
from medheb.core.files import write_text
from medheb.core.layout import Layout
from medheb.fetch.complete import Complete, read_complete
from medheb.fetch.listing import by_address, open_ended
from medheb.fetch.lock import Lock, lock_file, read_lock
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

LOG = logging.getLogger("medheb.fetch")


def follow_lock(run: Run, dataset_id: str) -> bool:
    """Forget an earlier download that a lock contradicts, so that the next fetch asks the host again.

    A source whose manifest pins every file by sha256 is left alone: its content is right whatever the host does.

    Returns:
        True if something was forgotten.

    Raises:
        MedhebError: the lock is damaged.
    """
    dataset = run.datasets.get(dataset_id)
    lock = read_lock(lock_file(run, dataset_id))
    if dataset is None or lock is None or dataset_id in run.config.local_copies or _pinned(dataset):
        return False
    try:
        return _follow(run, dataset, lock)
    except OSError as error:
        # The fetch itself meets the same disk, and tells of it in its status.
        LOG.warning("%s: its folder cannot be used (%s)", dataset_id, error.strerror)
        return False


def _follow(run: Run, dataset: Dataset, lock: Lock) -> bool:
    folder = run.layout.source_status(dataset.id).parent
    followed = folder / "lock.txt"
    before = followed.read_text(encoding="utf-8").strip() if followed.exists() else None
    now = lock.list_digest + (f" {lock.revision}" if lock.revision else "")
    complete = _complete(run.layout, dataset.id)
    elsewhere = {file.path for file in by_address(dataset).files}
    outdated = complete is not None and (contradicts(lock, complete, elsewhere) if before is None else before != now)
    if outdated:
        LOG.info("%s changed at its host, so says its lock; it is fetched again", dataset.id)
        (folder / "COMPLETE.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "archives", ignore_errors=True)
    if before != now:
        write_text(followed, now + "\n")
    return outdated


def contradicts(lock: Lock, complete: Complete, elsewhere: Collection[str] = ()) -> bool:
    """True if a fact of the lock differs from what came; facts that one side does not know do not count.

    Args:
        lock: what the host held when it was asked.
        complete: what came.
        elsewhere: files with addresses of their own, of which a host that lists its files knows nothing.
    """
    came = {file.path: file for file in complete.archives}
    locked = {file.path for file in lock.files}
    if locked and not locked <= came.keys() <= locked.union(elsewhere):
        return True
    return any(
        known is not None and seen is not None and known != seen
        for file in lock.files
        for known, seen in (
            (came[file.path].bytes, file.bytes),
            (came[file.path].sha256, file.sha256),
            (came[file.path].md5, file.md5),
        )
    )


def _pinned(dataset: Dataset) -> bool:
    return not open_ended(dataset) and bool(dataset.files) and all(file.sha256 for file in dataset.files)


def _complete(layout: Layout, dataset: str) -> Complete | None:
    try:
        return read_complete(layout.source_files(dataset).with_name("COMPLETE.json"))
    except MedhebError:
        return None
