"""What was found of a model's weights when it was fetched: folders, files, digests. Imports no client of a host."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from medheb.core.digests import json_digest
from medheb.core.errors import BlockedError, MedhebError
from medheb.core.layout import Layout
from medheb.manifest.base import Sha256, Strict, read_json, validate
from medheb.manifest.model import Model
from medheb.manifest.weights import WANTED_FILES, FolderWeights

# What else MedImageInsight needs: its weights are safetensors by content, whatever their name says.
OWN_FILES = (*WANTED_FILES, "*.pt", "*.txt")
FETCH_AGAIN = "Run `medheb retry`, then the workflow"


class FoundFile(Strict):
    """One file of a folder of weights."""

    path: str
    bytes: int
    modified_ns: int
    sha256: Sha256


class FoundFolder(Strict):
    """One folder of weights as it was when the model was fetched."""

    folder: str
    repository: str | None = None
    revision: str | None = None
    files: tuple[FoundFile, ...]

    @property
    def digest(self) -> str:
        """Digest of names and contents; where the folder lies does not count."""
        return json_digest([[file.path, file.sha256] for file in self.files])


class FoundWeights(Strict):
    """Content of ``weights.json`` beside a model's status: its folders by slot."""

    schema_version: int = 1
    folders: dict[str, FoundFolder]


def weights_source(model: str, slot: str) -> str:
    """Id under which the fetch code knows the weights of a model."""
    return f"weights_{model}_{slot}"


def record_of(layout: Layout, model: str) -> Path:
    """Where the found folders of a model are recorded."""
    return layout.model_folder(model) / "weights.json"


def own_folder(model: str, weights: FolderWeights) -> Path:
    """The folder of weights that a user gave.

    Raises:
        BlockedError: there is none; says where to get them.
    """
    setting = f"Set 'weights: {{{model}: FOLDER}}' in your configuration"
    if weights.path is None:
        raise BlockedError(f"model {model}", "has no folder of weights", weights.remedy or setting)
    folder = Path(weights.path)
    if not folder.is_dir():
        raise BlockedError(folder, f"is not there; model {model} has its weights in it", weights.remedy or setting)
    return folder


def own_files(folder: Path) -> dict[str, Path]:
    """Files of a user's folder that count, by their name below it."""
    below = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path for name, path in below.items() if any(fnmatchcase(name, pattern) for pattern in OWN_FILES)}


def own_state(model: Model) -> str:
    """Digest of names, sizes and times of the files in a user's folders; empty if the model has no such folder.

    The workflow looks at it, so that weights which were replaced in their place are found and digested again.
    """
    folders = {
        slot: Path(weights.path)
        for slot, weights in model.folders().items()
        if isinstance(weights, FolderWeights) and weights.path is not None
    }
    found = [
        [slot, name, facts.st_size, facts.st_mtime_ns]
        for slot, folder in folders.items()
        for name, path in own_files(folder).items()
        for facts in [path.stat()]
    ]
    return json_digest(found)[:16] if folders else ""


def read_found(layout: Layout, model: str) -> FoundWeights:
    """What was recorded of a model's folders.

    Raises:
        MedhebError: nothing, or not such a record.
    """
    path = record_of(layout, model)
    return validate(FoundWeights, read_json(path, FETCH_AGAIN), path)


def found_folder(layout: Layout, model: str, slot: str) -> FoundFolder:
    """One folder of weights, unchanged since it was recorded (by names, sizes and, for a user's folder, times).

    Raises:
        MedhebError: it was not fetched, or a file is missing or has changed.
    """
    record = read_found(layout, model).folders.get(slot)
    if record is None:
        raise MedhebError(record_of(layout, model), f"says nothing of '{slot}'", FETCH_AGAIN)
    for file in record.files:
        path = Path(record.folder) / file.path
        try:
            facts = path.stat()
        except OSError:
            raise MedhebError(path, "is missing", FETCH_AGAIN) from None
        if facts.st_size != file.bytes or (file.modified_ns and facts.st_mtime_ns != file.modified_ns):
            raise MedhebError(path, "has changed since the model was fetched", FETCH_AGAIN)
    return record


def weights_changed(layout: Layout, model: Model) -> bool:
    """Whether weights that were found once are so no longer."""
    try:
        for slot in model.folders():
            found_folder(layout, model.id, slot)
    except MedhebError:
        return True
    return False
