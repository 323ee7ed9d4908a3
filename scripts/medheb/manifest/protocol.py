"""Evaluation protocol: named switches, each with one line that says what it changes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medheb.manifest.base import Strict


class Protocol(Strict):
    """One file of ``manifests/protocols``."""

    name: Literal["release", "corrected"]
    title: str = Field(min_length=3)
    ties: Literal["expected", "positive_first"] = Field(
        description="expected: mean over all orders of equal scores; positive_first: equal scores favour the positive, "
        "as the published harness does where its sort keeps order (discrepancy 24)"
    )
    candidate_identity: Literal["content", "name"] = Field(
        description="content: candidates are one if their content is; name: one if text or paths read the same, "
        "volumes by their first three slices (discrepancy 25)"
    )
    text_cleaning: bool = Field(
        description="true: remove all characters but word characters, blanks and . , : ; ( ) - from text-text tasks, "
        "as the published parser does (discrepancy 28); false: only put white space in order"
    )
    question_pool: Literal["task", "row"] = Field(
        default="task",
        description="of a rebuilt index. task: a question is asked against all answers of its task, as the paper says; "
        "row: against a list of its own, as the published harness ranks (discrepancy 4)",
    )
    published_draws: bool = Field(
        default=False,
        description="a rebuilt index takes wrong answers that a source's published program drew with one random "
        "stream, where it has them, instead of drawing each row's by a keyed hash (discrepancy 40)",
    )
    blip2_frames: int | None = Field(
        default=None,
        ge=1,
        description="slices of a volume that BLIP-2 averages. null: as its entry says, 64 as for all models; 32: as "
        "the published adapter (discrepancy 2)",
    )
    rzen_text: Literal["kept", "dropped"] = Field(
        default="kept",
        description="kept: RzenEmbed reads the text of an input with pictures; dropped: it does not, so a question "
        "never reaches it, as in the published adapter (discrepancy 5)",
    )
    qwen3_max_tokens: int | None = Field(
        default=None,
        ge=64,
        description="tokens of a whole input of Qwen3-VL models. null: as the entry says, 8192 as their authors; "
        "10240: as the published evaluator",
    )
    tie_tolerance: float = Field(ge=0, lt=1e-3, description="cosines closer than this are equal")
