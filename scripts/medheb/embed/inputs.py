"""From a task JSON to rendered inputs: which distinct things a model must embed, and under which keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path

from PIL import Image

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.index.built import inventories_of
from medheb.index.paths import Images
from medheb.index.records import Item, Record, read_records
from medheb.index.text_rules import honest, published
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


def render_task(run: Run, task: Task, render: Renderer) -> RenderedTask:
    """Render all queries and candidates of a task.

    Texts of text-text tasks are cleaned, as published or without losing a sign, as the protocol says.

    Raises:
        MedhebError: the task JSON is damaged or names an image that no source of the task built.
    """
    path = run.layout.task_index(task.index)
    records = read_records(path)
    images = Images(inventories_of(run, task) if task.image_root is not None else [])
    clean = published if run.protocol.text_cleaning else honest

    @cache
    def rendered(item: Item, instruction: str, side: Side) -> Rendered:
        refs: list[ImageRef] = []
        for image in item.images:
            full = f"{task.image_root}/{image}"
            found = images.get(full)
            if found is None:
                raise MedhebError(
                    path,
                    f"names image {full}, which none of {', '.join(task.sources)} has built",
                    "Build the index again, or the source that should hold the image",
                )
            refs.append(ImageRef(full, found.file.sha256))
        shown = replace(item, text=clean(item.text)) if task.family == "text-text" else item
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
