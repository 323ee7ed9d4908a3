"""Where a network runs, in which number format, and how it attends."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import torch

from medheb.core.errors import MedhebError
from medheb.manifest.networks import Attention, DataType, number_format

FORMATS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Placement:
    """Device, number format and kind of attention of one network."""

    device: torch.device
    dtype: torch.dtype
    attention: str


def place(dtype: DataType, attention: Attention, device: str, flash: bool = True) -> Placement:
    """Where and how a network runs.

    Args:
        dtype: of the model's manifest.
        attention: of the model's manifest.
        device: ``cpu``, ``cuda``, ``cuda:1`` ...
        flash: the network can use flash attention.

    Raises:
        MedhebError: there is no such device.
    """
    name = number_format(dtype, device)
    where = torch.device(device)
    if where.type == "cuda" and not torch.cuda.is_available():
        raise MedhebError(f"device {device}", "is not there", "Run on a machine with a GPU, or choose device cpu")
    if attention == "auto":
        fits = flash and where.type == "cuda" and name == "bfloat16" and find_spec("flash_attn") is not None
        attention = "flash_attention_2" if fits else "sdpa"
    return Placement(where, FORMATS[name], attention)
