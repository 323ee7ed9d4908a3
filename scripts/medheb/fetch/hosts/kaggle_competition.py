"""Client of Kaggle competitions (see ``_kaggle.py``): all files as one archive, or those that a manifest names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medheb.fetch.hosts._hub import library
from medheb.fetch.hosts._kaggle import PAGE_SIZE, SERVICE, SITE, Place, deliver, pages
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import KaggleCompetitionHost

TYPES = "kagglesdk.competitions.types.competition_api_service"


class KaggleCompetitionClient:
    """See :class:`medheb.fetch.remote.HostClient`.

    ``<competition>.zip`` holds all files, as the site packs them; a manifest without files wants that. An address is
    the file's name on the site, empty for all. A competition has no versions and the site tells no digests.
    """

    def listing(self, dataset: Dataset, host: KaggleCompetitionHost) -> list[RemoteFile]:
        """All files as one archive, or the manifest's files. The site shows names even before rules are accepted."""
        bundle = f"{host.name}.zip"
        offered = [RemoteFile(bundle, "")]
        if any(file.path != bundle for file in dataset.files):
            offered += [
                RemoteFile(entry.name, entry.name)
                for page in pages(_place(dataset, host), lambda client, token: _page(client, host, token))
                for entry in page.files
                if entry.name != bundle
            ]
        return wanted(dataset, offered, SERVICE)

    def fetch(
        self, dataset: Dataset, host: KaggleCompetitionHost, file: RemoteFile, target: Path, transfer: Transfer
    ) -> None:
        """Download one file, or all as one archive."""
        types = library("kagglesdk", TYPES)
        if file.address:
            one = types.ApiDownloadDataFileRequest()
            one.competition_name, one.file_name = host.name, file.address
        else:
            everything = types.ApiDownloadDataFilesRequest()
            everything.competition_name = host.name

        def call(client: Any) -> Any:
            api = client.competitions.competition_api_client
            return api.download_data_file(one) if file.address else api.download_data_files(everything)

        deliver(_place(dataset, host), call, file, target, transfer)


def _place(dataset: Dataset, host: KaggleCompetitionHost) -> Place:
    return Place(dataset, f"{SITE}/competitions/{host.name}", competition=True)


def _page(client: Any, host: KaggleCompetitionHost, token: str) -> Any:
    order = library("kagglesdk", TYPES).ApiListDataFilesRequest()
    order.competition_name, order.page_size = host.name, PAGE_SIZE
    if token:
        order.page_token = token
    return client.competitions.competition_api_client.list_data_files(order)


CLIENT = KaggleCompetitionClient()
