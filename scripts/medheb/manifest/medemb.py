"""Settings of MedEmb's training. What the paper does not give is a choice of ours, and says so (docs/training.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from medheb.manifest.base import Identifier, Strict


class Batches(Strict):
    """Dynamic batches under a budget of tokens (paper, appendix A.1); the three sizes are ours, nobody gave them."""

    nominal_pairs: int = Field(default=4, ge=1, description="B_nom: the budget is 2 * B_nom * longest tokens")
    longest: int = Field(
        default=8192,
        ge=16,
        description="L_max: tokens of the longer side of a pair; longer pairs are left out, counted",
    )
    most_pairs: int = Field(default=256, ge=2, description="S_max: pairs of one batch at most")
    open_batches: int = Field(
        default=64, ge=1, description="batches that are filled at once; more of them fit better and need no more memory"
    )


class Lora(Strict):
    """The adapter that is trained (rank and alpha: paper; the rest: ours)."""

    rank: int = Field(default=8, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="linear layers of the language model; the vision tower stays as it is",
    )


class MedEmb(Strict):
    """Training of the reference model."""

    bases: dict[Identifier, Identifier] = Field(
        default={"2b": "qwen3_vl_embedding_2b", "8b": "qwen3_vl_embedding_8b"},
        description="size: model of models.yaml that training starts from; its adapter must be qwen3vl",
    )
    sizes: tuple[Identifier, ...] = Field(default=("2b",), description="sizes that `snakemake train_medemb` trains")
    ranks: int = Field(
        default=8,
        ge=1,
        description="processes of the training job in all, a GPU each (paper: 8); without GPU if embed.device is cpu",
    )
    nodes: int = Field(default=1, ge=1, description="machines of the training job; ranks is a multiple of it")
    lora: Lora = Lora()
    batches: Batches = Batches()
    learning_rate: float = Field(default=1e-4, gt=0, description="peak (paper)")
    warmup: float = Field(default=0.03, ge=0, lt=1, description="part of the epoch over which the rate rises; ours")
    weight_decay: float = Field(default=0.0, ge=0, description="ours")
    clip_norm: float = Field(default=1.0, gt=0, description="largest norm of a step's gradient; ours")
    temperature: float = Field(default=0.01, gt=0, description="paper")
    margin: float = Field(default=0.1, ge=0, description="of the false-negative mask (paper)")
    margin_on: Literal["cosine", "exponential"] = Field(
        default="cosine",
        description="cosine: as the paper's text has it; exponential: as its equation 2 is written, on exp(cos / tau)",
    )
    mask_equal_targets: bool = Field(
        default=True, description="a target with the content of the positive (the same label) is no negative; ours"
    )
    caps: dict[Identifier, Annotated[int, Field(ge=1)]] = Field(
        default={}, description="source: pairs of it at most, drawn by a keyed hash; sources not named come whole"
    )
    checkpoint_minutes: float = Field(default=20.0, gt=0)
    workers: int | None = Field(
        default=None, ge=0, description="processes a GPU that decode images; null: by the job's threads; 0: none"
    )
    gradient_checkpointing: bool = True

    @model_validator(mode="after")
    def _ranks_are_shared_evenly(self) -> MedEmb:
        if self.ranks % self.nodes:
            raise ValueError(f"ranks is {self.ranks}, no multiple of nodes ({self.nodes})")
        return self

    @model_validator(mode="after")
    def _sizes_have_bases(self) -> MedEmb:
        if unknown := [size for size in self.sizes if size not in self.bases]:
            raise ValueError(f"sizes names {', '.join(unknown)}, which bases lacks ({', '.join(self.bases)})")
        return self
