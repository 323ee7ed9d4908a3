"""PhysioNet: never crawled. The user's own copy is verified instead, see ``fetch/local_copy.py``."""

from __future__ import annotations

from pathlib import Path

from medheb.core.errors import BlockedError
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import PhysioNetHost


class PhysioNetClient:
    """Tells where to get a copy, and how to name it. A copy in any layout will do."""

    def listing(self, dataset: Dataset, host: PhysioNetHost) -> list[RemoteFile]:
        """Nothing is listed.

        Raises:
            BlockedError: always.
        """
        raise _own_copy(dataset, host)

    def fetch(self, dataset: Dataset, host: PhysioNetHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """Nothing is fetched.

        Raises:
            BlockedError: always.
        """
        raise _own_copy(dataset, host)


def _own_copy(dataset: Dataset, host: PhysioNetHost) -> BlockedError:
    versions = " or ".join(host.versions)
    return BlockedError(
        f"source {dataset.id}",
        "needs your own copy from PhysioNet, which is verified and never fetched",
        f"Get {host.slug} {versions} with your account from https://physionet.org/content/{host.slug}/, "
        f"then set 'local_copies: {{{dataset.id}: <folder>}}'",
    )


CLIENT = PhysioNetClient()
