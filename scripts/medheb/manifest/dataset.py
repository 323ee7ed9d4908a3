"""Access manifest of one source: what it is, where it comes from, what may be done with it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from medheb.manifest.base import Identifier, Md5, RelativePath, Sha256, Strict
from medheb.manifest.hosts import Host, HuggingFaceHost, PhysioNetHost

EvidenceForm = Literal["2d", "3d", "text"]
AccessClass = Literal["open", "registration", "gated", "competition", "credentialed", "restricted"]


class Licence(Strict):
    """Terms of a source."""

    spdx: str | None = Field(description="SPDX identifier, or null where none exists")
    url: str = Field(description="where the terms stand")
    note: str = Field(default="", description="what a user should know beyond the identifier")


class AcceptedDigest(Strict):
    """Another digest under which a file is right, and why (an erratum of the publisher, say)."""

    sha256: Sha256
    note: str = Field(min_length=10)


class SourceFile(Strict):
    """One file as the host serves it."""

    path: RelativePath
    bytes: int | None = Field(ge=0, description="size, null if nobody has seen it")
    sha256: Sha256 | None
    md5: Md5 | None = Field(default=None, description="the publisher's own digest, where there is one")
    digest_source: str = Field(min_length=3, description="who says so, or why there is no digest")
    url: str | None = Field(
        default=None, pattern=r"^https://", description="address, where the host's rule does not give it"
    )
    accepted: tuple[AcceptedDigest, ...] = Field(default=(), description="alternate digests, each with its reason")


class Unpack(Strict):
    """Which members of an archive are wanted, and the caps that stop a hostile one."""

    include: tuple[str, ...] = Field(min_length=1, description="shell patterns of member names (* also crosses /)")
    max_members: int = Field(default=20_000, ge=1, description="members in the whole archive")
    max_bytes: int = Field(default=2_000_000_000, ge=1, description="unpacked bytes of the wanted members")
    max_ratio: float = Field(default=200.0, ge=1, description="unpacked bytes / archive bytes")
    remote: bool = Field(
        default=False,
        description="members of zips are read over byte ranges instead of downloading the whole archive; the archive's "
        "own digest cannot be checked then",
    )


class Recipe(Strict):
    """Which build recipe turns the files into images, and its settings."""

    name: Identifier
    version: int = Field(ge=1, description="raised when the recipe's result changes on purpose")
    options: dict[str, Any] = Field(default_factory=dict, description="checked by the recipe itself")


class TrainingPart(Strict):
    """What a source's training part needs beyond its test part. Fetched where the run asks for it (``training``)."""

    include: tuple[str, ...] = Field(default=(), description="further file patterns of the hub")
    names: tuple[str, ...] = Field(default=(), description="further rules that build file names on the hub")
    files: tuple[SourceFile, ...] = Field(default=(), description="further files as the host serves them")
    unpack: tuple[str, ...] = Field(default=(), description="further patterns of members of archives")
    max_bytes: int | None = Field(default=None, ge=1, description="unpacked bytes with them, null if as without")
    max_members: int | None = Field(default=None, ge=1, description="members with them, null if as without")
    download_bytes: int | None = Field(default=None, ge=0, description="of these files alone, null if unknown")
    cases: int | None = Field(default=None, ge=1, description="further volumes or studies, null if unknown or none")
    note: str = Field(min_length=10, description="why it is not fetched by default")

    @model_validator(mode="after")
    def _needs_something(self) -> TrainingPart:
        if not (self.include or self.names or self.files or self.unpack):
            raise ValueError("include, names, files or unpack: what the training part needs")
        return self


class Place(Strict):
    """Where the card's layout has a part of the image folder that cannot be the folder itself."""

    path: RelativePath = Field(description="place in the layout, such as 2D_Images/PanNuke_VG")
    folder: RelativePath = Field(description="what is found there: a folder below `images`")
    shared: bool = Field(default=False, description="other sources put files there too: a link for each file")


class Dataset(Strict):
    """One source of the benchmark (design.md section 4, "Access manifest")."""

    id: Identifier
    title: str = Field(min_length=3)
    aliases: tuple[str, ...] = Field(default=(), description="every other spelling in card, paper and folders")
    form: EvidenceForm
    modality: tuple[str, ...] = Field(min_length=1)
    anatomy: tuple[str, ...] = ()
    subject: str | None = Field(default=None, description="for single-person samples: what is known of the person")
    access: AccessClass
    licence: Licence
    redistribution: bool = Field(description="may built files be passed on")
    show_content: bool = Field(description="may reports and audits show pictures, texts and paths of it")
    host: Host
    mirrors: tuple[Host, ...] = Field(default=(), description="other hosts of the same files, tried in order")
    also: tuple[PhysioNetHost, ...] = Field(
        default=(), description="further hosts whose files the source needs besides; unlike mirrors, all are needed"
    )
    files: tuple[SourceFile, ...] = Field(
        description="files as the host serves them; may be empty if nobody has listed them"
    )
    files_note: str = Field(default="", description="why files are missing or have no digest")
    requires: tuple[Identifier, ...] = Field(default=(), description="other sources whose files this one uses")
    patients: Identifier | None = Field(
        default=None,
        description="source whose patients these are too, under the same names of groups; null: nobody is known to be",
    )
    download_bytes: int | None = Field(default=None, ge=0, description="all files together, null if unknown")
    disk_bytes: int | None = Field(default=None, ge=0, description="unpacked and built, null if unknown")
    inodes: int | None = Field(default=None, ge=0, description="files after unpacking and building, null if unknown")
    cases: int | None = Field(
        default=None,
        ge=1,
        description="volumes or studies that the recipe reads one by one; many of them are built in shards",
    )
    test_items: int | None = Field(
        default=None,
        ge=1,
        description="pictures, volumes or texts of the test part; sizes jobs, decides no result, null if unknown",
    )
    unpack: Unpack | None = Field(default=None, description="null: files are left as they are")
    training: TrainingPart | None = Field(
        default=None, description="null: there is no training part, or it comes with the test part"
    )
    published_split: str | None = Field(
        default=None,
        min_length=5,
        description="what of the source's own publisher says which rows are training and which are test; null: nothing "
        "does, such as where the benchmark or this project drew the line",
    )
    recipe: Recipe
    images: RelativePath = Field(description="folder of the canonical layout that the recipe fills")
    places: tuple[Place, ...] = Field(default=(), description="further places of the layout, made as links")
    build_bytes: int | None = Field(
        default=None, ge=0, description="decoded bytes that the recipe reads; large sources are built in shards of it"
    )
    links: tuple[str, ...] = Field(min_length=1, description="official pages")
    citation: str = Field(min_length=3)
    note: str = Field(default="", description="what is thin, unusual or unverified")

    @property
    def people(self) -> str:
        """Source under whose name its groups (patients, cases) are compared with those of others."""
        return self.patients or self.id

    def with_training(self) -> Dataset:
        """This source with its training part among what is fetched, unpacked and read."""
        more = self.training
        if more is None:
            return self
        changes: dict[str, Any] = {"files": (*self.files, *more.files)}
        if isinstance(self.host, HuggingFaceHost):
            patterns = {"include": (*self.host.include, *more.include), "names": (*self.host.names, *more.names)}
            changes["host"] = self.host.model_copy(update=patterns)
        if self.unpack is not None:
            caps = {"max_bytes": more.max_bytes, "max_members": more.max_members}
            changes["unpack"] = self.unpack.model_copy(
                update={"include": (*self.unpack.include, *more.unpack)}
                | {name: value for name, value in caps.items() if value is not None}
            )
        known = self.download_bytes is not None and more.download_bytes is not None
        changes["download_bytes"] = (self.download_bytes or 0) + (more.download_bytes or 0) if known else None
        changes |= {"disk_bytes": None, "inodes": None, "build_bytes": None}
        if self.cases and more.cases:
            changes["cases"] = self.cases + more.cases
        return self.model_copy(update=changes)

    @model_validator(mode="after")
    def _rules(self) -> Dataset:
        if self.access in {"credentialed", "restricted"} and (self.redistribution or self.show_content):
            raise ValueError("redistribution and show_content: false for credentialed and restricted sources")
        hosts = [host for host in (self.host, *self.mirrors, *self.also) if isinstance(host, PhysioNetHost)]
        if self.also and not isinstance(self.host, PhysioNetHost):
            raise ValueError("host of kind physionet where there is also: both are looked for in one copy of the user")
        if self.also and len({host.slug for host in hosts}) != len(hosts):
            raise ValueError("another slug for each project of host, mirrors and also")
        more = self.training
        if more and (more.include or more.names) and not isinstance(self.host, HuggingFaceHost):
            raise ValueError("training.include and training.names for a host of kind huggingface only")
        if more and more.unpack and self.unpack is None:
            raise ValueError("training.unpack where there is unpack")
        if not self.files and not self.files_note:
            raise ValueError("files, or a files_note that says why there are none")
        return self
