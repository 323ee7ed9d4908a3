"""The released index: the benchmark's own task JSONs, as ``index.yaml`` beside ``tasks.tsv`` describes them."""

from __future__ import annotations

from pydantic import Field

from medheb.manifest.base import Identifier, Strict
from medheb.manifest.dataset import AccessClass, Dataset, Licence, Recipe, SourceFile
from medheb.manifest.hosts import Host

RELEASED_ID = "released_index"


class ReleasedIndex(Strict):
    """Content of ``index.yaml``: where the released task JSONs come from and how their image paths are read."""

    title: str = Field(min_length=3)
    access: AccessClass
    licence: Licence
    redistribution: bool = Field(description="may the task files be passed on")
    host: Host
    files: tuple[SourceFile, ...] = Field(default=(), description="files as the host serves them, where known")
    files_note: str = Field(min_length=10, description="why files have no digest")
    by_case: tuple[Identifier, ...] = Field(
        default=(),
        description="sources whose folders in the released paths are not published: a path that leads nowhere is "
        "looked up by case and slice name, and the report counts such paths",
    )
    links: tuple[str, ...] = Field(min_length=1, description="official pages")
    citation: str = Field(min_length=3)
    note: str = ""

    def as_source(self) -> Dataset:
        """The index as the fetch code takes it: a source that is fetched and never built.

        Nothing of it is shown: its files hold texts and paths of restricted sources too.
        """
        return Dataset(
            id=RELEASED_ID,
            title=self.title,
            form="text",
            modality=("Task files",),
            access=self.access,
            licence=self.licence,
            redistribution=self.redistribution,
            show_content=False,
            host=self.host,
            files=self.files,
            files_note=self.files_note,
            recipe=Recipe(name="none", version=1),
            images="Task_Index",
            links=self.links,
            citation=self.citation,
            note=self.note,
        )
