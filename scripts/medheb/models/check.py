"""``medheb models check``: licence and gate, weights, disk and memory, and a self-test of what is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.fetch.found_weights import found_folder, own_folder
from medheb.fetch.needs import token_place
from medheb.manifest.base import Strict
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.networks import NetworkAdapter, SentenceTransformersAdapter, TowerAdapter, number_format
from medheb.manifest.weights import FolderWeights, HubWeights
from medheb.models.hub_weights import require_safetensors
from medheb.models.selftest import Finding, self_test

GIGABYTE = 1e9
# Beside the weights: what the network computes, and the library itself.
BESIDE_WEIGHTS_GB = 2.0
BYTES_A_NUMBER = {"float32": 4, "bfloat16": 2}
State = Literal["ready", "missing", "faulty"]


class FolderCheck(Strict):
    """One folder of weights."""

    slot: str
    source: str
    licence: str
    gate: Literal["none", "terms"] = "none"
    present: bool
    bytes: int | None = None
    revision: str | None = None


class ModelCheck(Strict):
    """One model."""

    id: str
    title: str
    state: State
    folders: tuple[FolderCheck, ...]
    dimension: int | None
    download_gigabytes: float | None
    free_gigabytes: float
    gpu_gigabytes: float | None
    self_test: Literal["passed", "failed", "not run"]
    findings: tuple[str, ...]
    reason: str = ""
    remedy: str = ""


class ModelsCheck(Strict):
    """What ``medheb models check --json`` prints."""

    schema_version: int = 1
    device: str
    models: tuple[ModelCheck, ...]

    @property
    def ok(self) -> bool:
        """True if every model is ready."""
        return all(model.state == "ready" for model in self.models)


def check_models(run: Run, wanted: Sequence[str], device: str, run_networks: bool = True) -> ModelsCheck:
    """Check models of a run.

    Args:
        run: whose models and folders are meant.
        wanted: model ids; all real ones of the run if empty.
        device: where self-tests run.
        run_networks: try the networks of which the weights are there.

    Raises:
        MedhebError: a model that the run does not have.
    """
    real = [key for key, model in run.models.items() if isinstance(model.adapter, NetworkAdapter)]
    for name in wanted:
        if name not in real:
            raise MedhebError(f"model '{name}'", "has no weights to check in this run", f"Allowed: {', '.join(real)}")
    chosen = [key for key in real if not wanted or key in wanted]
    return ModelsCheck(
        device=device, models=tuple(_check(run, run.models[key], device, run_networks) for key in chosen)
    )


def _check(run: Run, model: Model, device: str, run_networks: bool) -> ModelCheck:
    layout = run.layout
    folders = tuple(_folder(layout, model, slot, weights) for slot, weights in model.folders().items())
    download = [weights.download_bytes for weights in model.folders().values() if isinstance(weights, HubWeights)]
    known = [size for size in download if size]
    found = ModelCheck(
        id=model.id,
        title=model.title,
        state="missing",
        folders=folders,
        dimension=model.facts.dimension,
        download_gigabytes=sum(known) / GIGABYTE if known else None,
        free_gigabytes=_free(layout.sources) / GIGABYTE,
        gpu_gigabytes=model.facts.gpu_gigabytes,
        self_test="not run",
        findings=(),
    )
    try:
        paths = {slot: _place(run, model, slot, weights) for slot, weights in model.folders().items()}
    except MedhebError as error:
        return found.model_copy(update={"reason": f"{error.where}: {error.fault}", "remedy": error.remedy})
    try:
        if model.adapter.name not in {"medimageinsight", "sentence_transformers"}:  # these have layouts of their own
            require_safetensors(paths["base"])
    except MedhebError as error:
        return _faulty(found, error, "failed" if run_networks else "not run")
    if not run_networks:
        return found.model_copy(update={"state": "ready"})
    return _tried(found, model, paths, device)


def _faulty(found: ModelCheck, error: MedhebError, tried: Literal["failed", "not run"]) -> ModelCheck:
    reason = f"{error.where}: {error.fault}"
    return found.model_copy(update={"state": "faulty", "self_test": tried, "reason": reason, "remedy": error.remedy})


def _tried(found: ModelCheck, model: Model, paths: dict[str, Path], device: str) -> ModelCheck:
    short = _memory_trouble(model, device)
    if short:
        return found.model_copy(update={"state": "ready", "reason": f"self-test not run: {short}"})
    try:
        findings = _self_test(model, paths, device)
    except MedhebError as error:
        return _faulty(found, error, "failed")
    bad = tuple(f"{finding.check}: {finding.detail}" for finding in findings if finding.detail)
    changes = {"state": "faulty" if bad else "ready", "self_test": "failed" if bad else "passed"}
    remedy = "Check that adapter and checkpoint belong together; docs/models.md lists the known traps" if bad else ""
    return found.model_copy(update={**changes, "findings": bad, "reason": bad[0] if bad else "", "remedy": remedy})


def _self_test(model: Model, paths: dict[str, Path], device: str) -> list[Finding]:
    from medheb.models.networks import open_adapter, open_network, settings_of

    settings = settings_of(model)
    adapter = open_adapter(settings, paths["base"], paths.get("lora"))
    encoder = open_network(settings, paths["base"], paths.get("lora"), device)
    texts_only = isinstance(settings, SentenceTransformersAdapter) and settings.inputs == "text"
    silent = isinstance(settings, TowerAdapter | SentenceTransformersAdapter) and settings.instruction == "none"
    findings = self_test(
        adapter, encoder, number_format(settings.dtype, device), pictures=not texts_only, instructed=not silent
    )
    if model.facts.dimension not in {None, encoder.dimension}:
        detail = f"vectors have {encoder.dimension} values, the entry says {model.facts.dimension}"
        findings.append(Finding("dimension", detail))
    return findings


def _folder(layout: Layout, model: Model, slot: str, weights: HubWeights | FolderWeights) -> FolderCheck:
    licence = weights.licence
    terms = "unknown" if licence is None else licence.spdx or licence.note or licence.url
    source = f"{weights.repository}" if isinstance(weights, HubWeights) else weights.path or "(no folder set)"
    gate = weights.gate if isinstance(weights, HubWeights) else "none"
    try:
        record = found_folder(layout, model.id, slot)
    except MedhebError:
        present = isinstance(weights, FolderWeights) and weights.path is not None and Path(weights.path).is_dir()
        return FolderCheck(slot=slot, source=source, licence=terms, gate=gate, present=present)
    size = sum(file.bytes for file in record.files)
    return FolderCheck(
        slot=slot, source=source, licence=terms, gate=gate, present=True, bytes=size, revision=record.revision
    )


def _place(run: Run, model: Model, slot: str, weights: HubWeights | FolderWeights) -> Path:
    """Where the weights lie.

    Raises:
        MedhebError: nowhere yet; says what to do, and what is in the way of it.
    """
    if isinstance(weights, FolderWeights):
        return own_folder(model.id, weights)
    try:
        return Path(found_folder(run.layout, model.id, slot).folder)
    except MedhebError:
        pass
    where = f"weights of {model.title} ({weights.repository})"
    if weights.gate == "terms" and token_place("huggingface") is None:
        raise MedhebError(
            where,
            "are gated and there is no token",
            f"Accept the terms at {weights.page}, make a token at https://huggingface.co/settings/tokens and set "
            f"HF_TOKEN; then `medheb fetch-model {model.id}`",
        )
    size = f"about {weights.download_bytes / GIGABYTE:.1f} GB" if weights.download_bytes else "their size is unknown"
    free = _free(run.layout.sources)
    if weights.download_bytes and free < weights.download_bytes:
        raise MedhebError(
            where, f"need {size}, and {free / GIGABYTE:.1f} GB are free", "Free space, or move paths.sources elsewhere"
        )
    gate = f" Its terms must be accepted at {weights.page}." if weights.gate == "terms" else ""
    raise MedhebError(where, f"are not fetched yet ({size})", f"Run `medheb fetch-model {model.id}`.{gate}")


def _memory_trouble(model: Model, device: str) -> str:
    if model.facts.parameters is None or not isinstance(model.adapter, NetworkAdapter):
        return ""
    numbers = model.facts.parameters * BYTES_A_NUMBER[number_format(model.adapter.dtype, device)]
    needed = numbers / GIGABYTE + BESIDE_WEIGHTS_GB
    if device.startswith("cpu"):
        free = psutil.virtual_memory().available / GIGABYTE
    else:
        import torch

        free = torch.cuda.mem_get_info(device)[0] / GIGABYTE
    return f"it needs {needed:.0f} GB of memory on {device}, {free:.0f} GB are free" if free < needed else ""


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def print_check(check: ModelsCheck, console: Console) -> None:
    """A table of the models, then a sentence for each that is not ready."""
    if not check.models:
        console.print("No model of this run has weights from the hub or in a folder of yours.")
        return
    table = Table("model", "state", "weights", "licence", "download", "GPU memory", "self-test", box=None)
    for model in check.models:
        table.add_row(
            model.id,
            model.state,
            "\n".join(_shown(folder) for folder in model.folders),
            "\n".join(folder.licence + (" (gated)" if folder.gate == "terms" else "") for folder in model.folders),
            _gigabytes(model.download_gigabytes),
            _gigabytes(model.gpu_gigabytes),
            model.self_test,
        )
    console.print(table)
    for line in _sentences(check):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _sentences(check: ModelsCheck) -> Iterator[str]:
    for model in check.models:
        if model.reason:
            yield f"{model.id}: {model.reason}. {model.remedy}".rstrip(" .") + "."


def _shown(folder: FolderCheck) -> str:
    size = f", {folder.bytes / GIGABYTE:.1f} GB" if folder.bytes else ""
    revision = f" @{folder.revision[:8]}" if folder.revision else ""
    return f"{folder.source}{revision}: {'there' if folder.present else 'not there'}{size}"


def _gigabytes(value: float | None) -> str:
    return "unknown" if value is None else f"about {value:.1f} GB"
