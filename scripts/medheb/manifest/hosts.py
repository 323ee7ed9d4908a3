"""Where a source comes from: one model a kind of host. A fact that nobody has seen is null, never a guess."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medheb.manifest.base import RelativePath, Strict

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
RepositoryName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")]


class PackageHost(Strict):
    """A distribution on the Python package index, fetched by the ordinary pip client, never imported."""

    kind: Literal["package"]
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!-]*$")
    format: Literal["wheel", "sdist"]


class HttpsHost(Strict):
    """Plain HTTPS; a file's address is ``base`` + its path, unless the file names its own ``url``."""

    kind: Literal["https"]
    base: str = Field(pattern=r"^https://[^\s]+/$")


class ZenodoHost(Strict):
    """A Zenodo record; its API gives name, size and md5 of every file."""

    kind: Literal["zenodo"]
    record: str = Field(pattern=r"^[0-9]+$")


class FigshareHost(Strict):
    """A figshare article; its API gives name, size and md5 of every file."""

    kind: Literal["figshare"]
    article: int = Field(ge=1)
    version: int | None = Field(default=None, ge=1)


class OsfHost(Strict):
    """An OSF project; its v2 API gives name, size, md5 and sha256 of every file."""

    kind: Literal["osf"]
    node: str = Field(pattern=r"^[a-z0-9]{5}$")


class GitHubHost(Strict):
    """Files of a GitHub repository at one commit."""

    kind: Literal["github"]
    repository: RepositoryName
    commit: Commit | None = None


class HuggingFaceHost(Strict):
    """A repository of the Hugging Face hub at one revision; only files that match ``include`` are wanted."""

    kind: Literal["huggingface"]
    repository: RepositoryName
    repository_type: Literal["dataset", "model"] = "dataset"
    revision: Commit | None = None
    include: tuple[str, ...] = Field(default=("*",), min_length=1)
    names: tuple[str, ...] = Field(
        default=(), description="rules that build file names where a listing would take too long; see the notes"
    )


class KaggleDatasetHost(Strict):
    """A Kaggle data set; needs an account."""

    kind: Literal["kaggle_dataset"]
    name: RepositoryName
    version: int | None = Field(default=None, ge=1)


class KaggleCompetitionHost(Strict):
    """Files of a Kaggle competition; its rules must be accepted on the site."""

    kind: Literal["kaggle_competition"]
    name: str = Field(pattern=r"^[a-z0-9-]+$")


class SynapseHost(Strict):
    """Synapse entities (files or folders); needs an account and accepted conditions."""

    kind: Literal["synapse"]
    entities: tuple[Annotated[str, Field(pattern=r"^syn[0-9]+$")], ...] = Field(min_length=1)


class PhysioNetHost(Strict):
    """A PhysioNet project. Never crawled: the user's own copy is verified against its SHA256SUMS.txt."""

    kind: Literal["physionet"]
    slug: str = Field(pattern=r"^[a-z0-9-]+$")
    versions: tuple[str, ...] = Field(min_length=1, description="versions that are supported, preferred first")
    needed: tuple[str, ...] = Field(
        default=("*",), description="shell patterns of the paths that the tasks need, from the project root"
    )


class PortalHost(Strict):
    """A portal that hands out links which expire (Stanford AIMI, Redivis): a local copy, or a link for one run."""

    kind: Literal["portal"]
    name: Literal["stanford_aimi", "redivis"]
    page: str = Field(pattern=r"^https://")


class GoogleDriveHost(Strict):
    """A file on Google Drive by its id."""

    kind: Literal["google_drive"]
    file_id: str = Field(pattern=r"^[A-Za-z0-9_-]{10,}$")


class ModelScopeHost(Strict):
    """A data set of ModelScope at one revision."""

    kind: Literal["modelscope"]
    repository: RepositoryName
    revision: str | None = None
    include: tuple[str, ...] = Field(default=("*",), min_length=1)


class TorrentHost(Strict):
    """A torrent that is known to hold the same files. Information only: never fetched by us."""

    kind: Literal["academic_torrents"]
    info_hash: Commit
    path: RelativePath | None = None


Host = Annotated[
    PackageHost
    | HttpsHost
    | ZenodoHost
    | FigshareHost
    | OsfHost
    | GitHubHost
    | HuggingFaceHost
    | KaggleDatasetHost
    | KaggleCompetitionHost
    | SynapseHost
    | PhysioNetHost
    | PortalHost
    | GoogleDriveHost
    | ModelScopeHost
    | TorrentHost,
    Field(discriminator="kind"),
]
HOST_KINDS = (
    "package",
    "https",
    "zenodo",
    "figshare",
    "osf",
    "github",
    "huggingface",
    "kaggle_dataset",
    "kaggle_competition",
    "synapse",
    "physionet",
    "portal",
    "google_drive",
    "modelscope",
    "academic_torrents",
)
