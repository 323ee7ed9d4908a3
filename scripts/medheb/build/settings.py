"""What of manifest and configuration decides what is made of a source: recipe, options, folders, switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medheb.build.registry import RECIPES
from medheb.build.source import Projector, ProtocolName
from medheb.core.digests import json_digest
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

KEPT = {"recipe", "images", "places"}
SHORT = 16  # hex digits: they tell settings apart and guard nothing


@dataclass(frozen=True)
class BuildSettings:
    """The settings of one build.

    Args:
        manifest: what of the access manifest decides.
        protocol: None where the recipe makes the same under each.
        projector: None where the recipe makes no X-rays.
        training: whether the training part was asked for; None where the source has none apart, or nobody was asked.
    """

    manifest: Mapping[str, Any]
    protocol: str | None
    projector: str | None
    training: bool | None

    @property
    def digest(self) -> str:
        """Of everything: the parameter of the workflow's rule."""
        switches = [self.protocol, self.projector, *(["training"] if self.training else [])]
        return json_digest([self.manifest, switches])[:SHORT]

    @property
    def named(self) -> dict[str, str]:
        """A digest of each setting by its name in words, so that an audit can say which one is another."""
        recipe = self.manifest["recipe"]
        values: dict[str, Any] = {key: value for key, value in self.manifest.items() if key != "recipe"}
        values |= {"recipe": recipe["name"], "recipe version": recipe["version"]}
        values |= {f"option {key}": value for key, value in recipe.get("options", {}).items()}
        switches = {"protocol": self.protocol, "projector": self.projector, "training": self.training}
        values |= {key: value for key, value in switches.items() if value is not None}
        return {key: json_digest(value)[:SHORT] for key, value in sorted(values.items())}


def settings_of(
    dataset: Dataset, protocol: ProtocolName, projector: Projector, training: bool | None = None
) -> BuildSettings:
    """Settings of a build; switches that the recipe does not follow do not count."""
    entry = RECIPES.get(dataset.recipe.name)
    return BuildSettings(
        manifest=dataset.model_dump(mode="json", exclude_defaults=True, include=KEPT),
        protocol=protocol if entry and entry.follows_protocol else None,
        projector=projector if entry and entry.follows_projector else None,
        training=training if dataset.training else None,
    )


def settings_in(run: Run, dataset_id: str) -> BuildSettings:
    """Settings with which a run builds a source."""
    config = run.config
    projector = config.drr.chosen(config.protocol)
    return settings_of(run.datasets[dataset_id], config.protocol, projector, config.trains(dataset_id))


def other_settings(built: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Names of settings that differ, sorted; none where nobody noted what was built with.

    Whether the training part was asked for counts only where both know it.
    """
    if not built or not wanted:
        return []
    names = {name for name in built.keys() | wanted.keys() if built.get(name) != wanted.get(name)}
    return sorted(names - ({"training"} - (built.keys() & wanted.keys())))
