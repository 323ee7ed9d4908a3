"""Files of a GitHub repository at one commit; a branch or tag can move and is never used.

``MEDHEB_GITHUB_RAW_URL`` replaces https://raw.githubusercontent.com (https, or this machine). ``GITHUB_TOKEN`` is only
needed for private repositories.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from medheb.core.errors import BlockedError
from medheb.fetch.addresses import base_url, host_name
from medheb.fetch.credentials import Login
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import named
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import GitHubHost

VARIABLE, DEFAULT = "MEDHEB_GITHUB_RAW_URL", "https://raw.githubusercontent.com"
TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable


class GitHubClient:
    """Raw files; git itself is not needed."""

    def listing(self, dataset: Dataset, host: GitHubHost) -> list[RemoteFile]:
        """The manifest's files at its commit; nothing is asked over the network.

        Raises:
            BlockedError: the manifest pins no commit.
        """
        if host.commit is None:
            raise BlockedError(
                f"manifest of {dataset.id}",
                f"pins no commit of {host.repository}",
                "Set host.commit to the 40 digits of the commit that holds the files",
            )
        base = base_url(VARIABLE, DEFAULT)
        root = f"{base}/{host.repository}/{host.commit}"
        return named(dataset, {file.path: f"{root}/{quote(file.path)}" for file in dataset.files}, host.repository)

    def fetch(self, dataset: Dataset, host: GitHubHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file."""
        login = Login((host_name(base_url(VARIABLE, DEFAULT)),), TOKEN)
        what = f"{dataset.id}: {file.path}"
        download([file.address], target, expected_of(dataset, file), transfer, login=login, what=what)


CLIENT = GitHubClient()
