"""Fit a dual encoder's bridge on the captioned images of its training sources."""

from __future__ import annotations

import logging

import numpy as np

from medheb.build.inventory import read_inventory
from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, first_trouble, read_status, status_of, write_status
from medheb.embed.reading import ImageReader
from medheb.manifest.load import Run
from medheb.models.base import ImageRef
from medheb.models.bridge import fit_bridge, write_bridge
from medheb.models.load import dual_adapter, load_towers

log = logging.getLogger("medheb.embed")


def fit_model_bridge(run: Run, model_id: str) -> Status:
    """Fit and write the bridge of a model; trouble becomes its status."""
    model = run.models[model_id]
    if model.bridge is None:
        raise MedhebError(f"model {model_id}", "has no bridge to fit", "Fit bridges only for dual encoders")
    try:
        status = first_trouble([read_status(run.layout.model_status(model_id))])
        pairs: list[tuple[ImageRef, str]] = []
        for source in model.bridge.train_sources:
            inventory = read_inventory(run.layout.inventory(run.datasets[source].images, source))
            status = first_trouble([status, inventory.status])
            pairs += [
                (ImageRef(f"{inventory.images}/{file.path}", file.sha256), str(file.facts["caption"]))
                for file in inventory.files
                if file.facts.get("caption")
            ]
        if status.ok:
            images, texts = load_towers(model, run.layout)
            adapter = dual_adapter(model, run.layout)
            read_image = ImageReader(run.layout.benchmark)
            log.info("%s: fitting the bridge on %d captioned images", model_id, len(pairs))
            features = images(adapter.pixels(read_image(ref)) for ref, _ in pairs)
            captions = sorted({caption for _, caption in pairs})
            vector_of = dict(zip(captions, texts([adapter.ids(caption) for caption in captions]), strict=True))
            targets = np.stack([vector_of[caption] for _, caption in pairs])
            try:
                bridge = fit_bridge(features, targets, model.bridge.ridge)
            except ValueError as error:
                where = ", ".join(model.bridge.train_sources)
                raise MedhebError(where, f"cannot train a bridge: {error}", "Choose other train_sources") from error
            write_bridge(run.layout.bridge(model_id), bridge)
            status = OK
    except MedhebError as error:
        log.error("%s", error)
        status = status_of(error, f"bridge {model_id}")
    write_status(run.layout.bridge_status(model_id), status)
    return status
