"""Makes the tiny checkpoints importable, and builds each once a session."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from harness import FOLDERS, Tiny, settings_for
from tiny_checkpoints import BUILDERS

torch.set_num_threads(1)  # tiny networks gain nothing from threads, which stand in each other's way


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint; never change it, copy it."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        architecture = FOLDERS.get(name, name)
        if architecture not in made:
            made[architecture] = BUILDERS[architecture](tmp_path_factory.mktemp(architecture) / "model")
        return made[architecture]

    return folder


@pytest.fixture(scope="session")
def tiny(checkpoint: Callable[[str], Path]) -> Callable[[str], Tiny]:
    """A tiny model with its usual settings, opened once."""
    opened: dict[str, Tiny] = {}

    def model(name: str) -> Tiny:
        if name not in opened:
            opened[name] = Tiny(settings_for(name), checkpoint(name))
        return opened[name]

    return model
