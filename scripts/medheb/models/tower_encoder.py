"""What the loaded networks of dual towers share: batches of pictures or of texts to float32 features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from medheb.models.base import Prepared, Vectors
from medheb.models.devices import Placement


class TowerEncoder(ABC):
    """A dual tower with its weights.

    Args:
        placement: device and number format.
        mean, std: of the normalised channels, on a scale of 0 to 1.
        pad: token that fills up shorter texts.
    """

    dimension: int

    def __init__(self, placement: Placement, mean: Sequence[float], std: Sequence[float], pad: int) -> None:
        self.placement = placement
        self.pad = pad
        self._mean = torch.tensor(mean, dtype=torch.float32, device=placement.device)[:, None, None]
        self._std = torch.tensor(std, dtype=torch.float32, device=placement.device)[:, None, None]

    @torch.inference_mode()
    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """Features, float32 [n, dimension], not normalised unless the model itself does so."""
        rows = np.empty((len(prepared), self.dimension), dtype=np.float32)
        pictures = [row for row, part in enumerate(prepared) if "pixels" in part.arrays]
        texts = [row for row, part in enumerate(prepared) if "pixels" not in part.arrays]
        if pictures:
            pixels = np.stack([prepared[row].arrays["pixels"] for row in pictures])
            rows[pictures] = self._finished(self.images(self._normalised(pixels)))
        if texts:
            arrays = [prepared[row].arrays for row in texts]
            ids, mask = self._padded([part["input_ids"] for part in arrays])
            rows[texts] = self._finished(self.texts(ids, mask))
        return rows

    def _normalised(self, pixels: Any) -> torch.Tensor:
        values = torch.from_numpy(pixels).to(self.placement.device).float() / 255.0
        return ((values - self._mean) / self._std).to(self.placement.dtype)

    def _padded(self, rows: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        length = max(len(row) for row in rows)
        ids = torch.full((len(rows), length), self.pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.from_numpy(row)
            mask[place, : len(row)] = 1
        return ids.to(self.placement.device), mask.to(self.placement.device)

    def _finished(self, features: torch.Tensor) -> Vectors:
        return features.float().cpu().numpy()

    @abstractmethod
    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, h, w] normalised to [b, dimension]."""

    @abstractmethod
    def texts(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Token ids [b, n] with their mask to [b, dimension]."""
