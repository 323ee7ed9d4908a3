"""What the Snakefile asks about MedEmb's training: its inputs, settings and GPUs."""

from __future__ import annotations

from medheb.core.digests import json_digest
from medheb.manifest.load import Run
from medheb.train.plan import base_model
from medheb.train.settings import settings_digest


class TrainingRules:
    """Wildcards and inputs of the training rules. Nothing is read from disk.

    Args:
        run: the run's configuration and manifests.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.options = run.config.medemb

    @property
    def sizes(self) -> tuple[str, ...]:
        """All sizes that can be trained."""
        return tuple(self.options.bases)

    def merged(self) -> list[str]:
        """What ``snakemake train_medemb`` makes: the model card of each wanted size, written with its weights."""
        return [str(self._run.layout.medemb(size) / "merged" / "README.md") for size in self.options.sizes]

    def plan_inputs(self, size: str) -> list[str]:
        """Training rows, and the tokenizer of the model that training starts from."""
        layout = self._run.layout
        return [str(layout.train_summary), str(layout.model_status(base_model(self._run, size).id))]

    def settings(self, size: str) -> str:
        """Digest of what decides the trained weights besides the plan."""
        return settings_digest(self.options, base_model(self._run, size))[:16]

    def plan_settings(self, size: str) -> str:
        """Digest of what decides the batches."""
        chosen = self.options.model_dump(mode="json", include={"batches", "caps"})
        return json_digest([chosen, base_model(self._run, size).id, self._run.config.seed])[:16]

    @property
    def gpus(self) -> int:
        """GPUs of the training job, on all its machines."""
        return 0 if self._run.config.embed.device == "cpu" else self.options.ranks
