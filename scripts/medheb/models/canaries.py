"""Two models that see nothing. Every run contains them: what they score shows whether ranks can be gifted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medheb.models.base import ReadImage, Rendered, Vectors


class RandomEncoder:
    """A unit vector drawn from the digest of the content: chance, up to noise, the same on every machine."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, inputs: Sequence[Rendered], read_image: ReadImage) -> Vectors:
        """float32 [n, dimension]."""
        rows = [
            np.random.Generator(np.random.PCG64(int(rendered.key, 16))).standard_normal(self.dimension)
            for rendered in inputs
        ]
        vectors = np.stack(rows)
        unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return unit


class ConstantEncoder:
    """The same unit vector for everything: exactly chance, unless ties are gifts."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, inputs: Sequence[Rendered], read_image: ReadImage) -> Vectors:
        """float32 [n, dimension]."""
        return np.full((len(inputs), self.dimension), self.dimension**-0.5, dtype=np.float32)
