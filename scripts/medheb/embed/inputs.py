"""From a task JSON to rendered inputs: which distinct things a model must embed, and under which keys."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path

from PIL import Image

from medheb.build.inventory import read_inventory
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.index.records import Item, Record, read_records
from medheb.manifest.load import Run
from medheb.manifest.task import Task
from medheb.models.base import ImageRef, ReadImage, Rendered, Side
from medheb.models.load import Renderer

READABLE_FORMATS = ("PNG", "JPEG")
MAX_PIXELS = 100_000_000
BUILD_AGAIN = "Run `medheb rebuild` for its source, then the workflow"


@dataclass(frozen=True)
class RenderedTask:
    """A task as one model sees it: queries [n] and their candidates, positive first."""

    task: Task
    records: list[Record]
    queries: list[Rendered]
    candidates: list[list[Rendered]]


def image_digests(run: Run, task: Task) -> dict[str, str]:
    """sha256 of every image of the task's sources, by path in the benchmark folder, from their inventories."""
    digests: dict[str, str] = {}
    for source in task.sources:
        inventory = read_inventory(run.layout.inventory(run.datasets[source].images, source))
        digests |= {f"{inventory.images}/{file.path}": file.sha256 for file in inventory.files}
    return digests


def clean_text(text: str) -> str:
    """What the published parser leaves of a text (spec: reference evaluation section 2)."""
    text = re.sub(r"[_-]+", " ", text.replace("\n", " "))
    return re.sub(r"\s+", " ", re.sub(r"[^\w\s.,:;()-]", "", text)).strip()


def render_task(run: Run, task: Task, render: Renderer) -> RenderedTask:
    """Render all queries and candidates of a task.

    Raises:
        MedhebError: the task JSON is damaged or names an image that no source of the task built.
    """
    path = run.layout.task_index(task.index)
    records = read_records(path)
    digests = image_digests(run, task) if task.image_root is not None else {}
    clean = run.protocol.text_cleaning and task.family == "text-text"

    @cache
    def rendered(item: Item, instruction: str, side: Side) -> Rendered:
        refs: list[ImageRef] = []
        for image in item.images:
            full = f"{task.image_root}/{image}"
            if full not in digests:
                raise MedhebError(
                    path,
                    f"names image {full}, which none of {', '.join(task.sources)} has built",
                    "Build the index again, or the source that should hold the image",
                )
            refs.append(ImageRef(full, digests[full]))
        shown = replace(item, text=clean_text(item.text)) if clean else item
        return render(shown, instruction, side, tuple(refs))

    return RenderedTask(
        task=task,
        records=records,
        queries=[rendered(record.query, record.qry_inst, "query") for record in records],
        # Candidates carry no instruction, in the paper and in the published code alike.
        candidates=[[rendered(item, "", "candidate") for item in record.candidates] for record in records],
    )


def image_reader(benchmark: Path) -> ReadImage:
    """A function that reads an image once, checks its bytes against the inventory, and decodes it."""

    def read_image(ref: ImageRef) -> Image.Image:
        path = benchmark / ref.path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise MedhebError(path, f"cannot be read ({error.strerror})", BUILD_AGAIN) from error
        if sha256_bytes(content) != ref.sha256:
            raise MedhebError(path, "has changed since it was built", BUILD_AGAIN)
        try:
            image = Image.open(BytesIO(content), formats=READABLE_FORMATS)
            if image.width * image.height > MAX_PIXELS:
                raise MedhebError(path, f"has {image.width} x {image.height} pixels", f"Allowed: {MAX_PIXELS} in all")
            image.load()
        except (OSError, Image.DecompressionBombError) as error:
            raise MedhebError(path, f"is not a readable PNG or JPEG ({error})", BUILD_AGAIN) from error
        return image

    return read_image
