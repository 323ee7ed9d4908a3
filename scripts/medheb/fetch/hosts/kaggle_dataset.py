"""Client of Kaggle data sets (see ``_kaggle.py``): the whole set as one archive, or the files that a manifest names."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from medheb.fetch.hosts._hub import library, refresh
from medheb.fetch.hosts._kaggle import PAGE_SIZE, SERVICE, SITE, Place, ask, deliver, pages
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import KaggleDatasetHost

LOG = logging.getLogger("medheb.fetch")
TYPES = "kagglesdk.datasets.types.dataset_api_service"


class KaggleDatasetClient:
    """See :class:`medheb.fetch.remote.HostClient`.

    ``<name>.zip`` is the whole set, as the site packs it; a manifest without files wants that. An address is
    ``<version>:<file name>``. The site tells no digests, and its sizes may be those of packed files.
    """

    def listing(self, dataset: Dataset, host: KaggleDatasetHost) -> list[RemoteFile]:
        """The whole set, or the manifest's files, of the pinned version (the current one if none is pinned)."""
        at = _place(dataset, host)
        version = host.version or _current(at, host)
        bundle = f"{host.name.split('/')[1]}.zip"
        offered = [RemoteFile(bundle, f"{version}:")]
        if any(file.path != bundle for file in dataset.files):
            offered += [
                RemoteFile(entry.name, f"{version}:{entry.name}")
                for page in pages(at, lambda client, token: _page(client, host, version, token))
                for entry in page.dataset_files
                if entry.name != bundle
            ]
        return wanted(dataset, offered, SERVICE)

    def fetch(
        self, dataset: Dataset, host: KaggleDatasetHost, file: RemoteFile, target: Path, transfer: Transfer
    ) -> None:
        """Download one file of the version that the listing saw."""
        version, _, name = file.address.partition(":")
        order = _request("ApiDownloadDatasetRequest", host, dataset_version_number=int(version))
        if name:
            order.file_name = name
        deliver(
            _place(dataset, host),
            lambda client: client.datasets.dataset_api_client.download_dataset(order),
            file,
            target,
            transfer,
        )


def _place(dataset: Dataset, host: KaggleDatasetHost) -> Place:
    return Place(dataset, f"{SITE}/datasets/{host.name}", competition=False)


def _request(kind: str, host: KaggleDatasetHost, **values: Any) -> Any:
    order = getattr(library("kagglesdk", TYPES), kind)()
    order.owner_slug, order.dataset_slug = host.name.split("/")
    for key, value in values.items():
        setattr(order, key, value)
    return order


def _current(at: Place, host: KaggleDatasetHost) -> int:
    order = _request("ApiGetDatasetRequest", host)
    found = ask(at, lambda client: client.datasets.dataset_api_client.get_dataset(order), Transfer())
    version = int(found.current_version_number)
    advice = refresh(at.dataset, "Pin it")
    LOG.warning("%s: no version is pinned; the current one is %d. %s", at.dataset.id, version, advice)
    return version


def _page(client: Any, host: KaggleDatasetHost, version: int, token: str) -> Any:
    order = _request("ApiListDatasetFilesRequest", host, dataset_version_number=version, page_size=PAGE_SIZE)
    if token:
        order.page_token = token
    return client.datasets.dataset_api_client.list_dataset_files(order)


CLIENT = KaggleDatasetClient()
