"""Access manifest of one source: what it is, where it comes from, what may be done with it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from medheb.manifest.base import Identifier, Md5, RelativePath, Sha256, Strict

EvidenceForm = Literal["2d", "3d", "text"]
AccessClass = Literal["open", "registration", "gated", "competition", "credentialed", "restricted"]


class Licence(Strict):
    """Terms of a source."""

    spdx: str | None = Field(description="SPDX identifier, or null where none exists")
    url: str = Field(description="where the terms stand")
    note: str = Field(default="", description="what a user should know beyond the identifier")


class PackageHost(Strict):
    """A distribution on the Python package index, fetched by the ordinary pip client, never imported."""

    kind: Literal["package"]
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!-]*$")
    format: Literal["wheel", "sdist"]


class SourceFile(Strict):
    """One file as the host serves it."""

    path: RelativePath
    bytes: int | None = Field(ge=0, description="size, null if nobody has seen it")
    sha256: Sha256 | None
    md5: Md5 | None = Field(default=None, description="the publisher's own digest, where there is one")
    digest_source: str = Field(min_length=3, description="who says so, or why there is no digest")


class Unpack(Strict):
    """Which members of an archive are wanted, and the caps that stop a hostile one."""

    include: tuple[str, ...] = Field(min_length=1, description="shell patterns of member names (* also crosses /)")
    max_members: int = Field(default=20_000, ge=1, description="members in the whole archive")
    max_bytes: int = Field(default=2_000_000_000, ge=1, description="unpacked bytes of the wanted members")
    max_ratio: float = Field(default=200.0, ge=1, description="unpacked bytes / archive bytes")


class Recipe(Strict):
    """Which build recipe turns the files into images, and its settings."""

    name: Identifier
    version: int = Field(ge=1, description="raised when the recipe's result changes on purpose")
    options: dict[str, Any] = Field(default_factory=dict, description="checked by the recipe itself")


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
    host: Annotated[PackageHost, Field(discriminator="kind")]
    files: tuple[SourceFile, ...] = Field(min_length=1)
    unpack: Unpack
    recipe: Recipe
    images: RelativePath = Field(description="folder of the canonical layout that the recipe fills")
    links: tuple[str, ...] = Field(min_length=1, description="official pages")
    citation: str = Field(min_length=3)
    note: str = Field(default="", description="what is thin, unusual or unverified")

    @model_validator(mode="after")
    def _restricted_stays_here(self) -> Dataset:
        if self.access in {"credentialed", "restricted"} and (self.redistribution or self.show_content):
            raise ValueError("redistribution and show_content: false for credentialed and restricted sources")
        return self
