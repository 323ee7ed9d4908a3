"""A retrieval task: one row of ``tasks.tsv``."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from medheb.manifest.base import Identifier, RelativePath, Strict, TaskKey
from medheb.manifest.dataset import EvidenceForm

Family = Literal[
    "image-image",
    "modality-bridging",
    "image-label",
    "image-report",
    "text-image",
    "vqa",
    "region",
    "text-text",
]
FAMILIES: tuple[Family, ...] = get_args(Family)
FAMILY_TITLES: dict[Family, str] = {
    "image-image": "Image-image",
    "modality-bridging": "Modality-bridging",
    "image-label": "Image-label",
    "image-report": "Image-report",
    "text-image": "Text-image",
    "vqa": "Question-conditioned",
    "region": "Region-level",
    "text-text": "Text-text",
}
TASK_COLUMNS = (
    "task",
    "index",
    "form",
    "family",
    "split",
    "pool",
    "sources",
    "image_root",
    "builder",
    "qry_inst",
    "qry_text",
    "note",
    "card_root",
)


class Task(Strict):
    """One task; field names are the column names of ``tasks.tsv``."""

    task: TaskKey
    index: RelativePath = Field(pattern=r"\.json$", description="task JSON in the benchmark folder")
    form: EvidenceForm
    family: Family
    split: Literal["id", "heldout"]
    pool: Literal["local", "global"] = Field(description="rank the row's own candidates, or those of all rows")
    sources: tuple[Identifier, ...] = Field(min_length=1, description="joined by + in the table; the first is home")
    image_root: RelativePath | None = Field(description="folder that image paths start from; empty for text")
    builder: Identifier = Field(description="function of medheb.index that makes the rows")
    qry_inst: str = Field(min_length=3)
    qry_text: str = Field(description="fixed question, <label> or <row> where it differs by row, or empty")
    note: str = Field(default="", description="what a reader of its scores should know")
    card_root: RelativePath | None = Field(
        default=None, description="image root of the other publication (dataset card or evaluator) where the two differ"
    )

    @property
    def image_roots(self) -> tuple[str, ...]:
        """Folders that image paths of a released task JSON may start from, ours first; none for text."""
        return tuple(root for root in (self.image_root, self.card_root) if root)

    @property
    def group(self) -> str:
        """Tasks of one group draw on the same sources; a model embeds them in one job."""
        return "+".join(self.sources)
