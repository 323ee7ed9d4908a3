"""Folders of weights as the hub lays them out: safetensors only, no remote code, nothing filled in at random."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json

if TYPE_CHECKING:  # torch and transformers take seconds to import; adapters and fingerprints do without
    import torch
    from torch import nn

    from medheb.models.devices import Placement

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
# Older checkpoints hold these; a network counts them out by itself.
COUNTERS = ("position_ids", "rotary_emb.inv_freq")
FIT = "Choose the adapter of this architecture, or the right checkpoint"
CONVERT = "Convert it once to safetensors, as docs/models.md shows, and take the old file away"
REPORT, COLOURS = "LOAD REPORT", re.compile(r"\x1b\[[0-9;]*m")
GET_AGAIN = "Get it again: into a folder of your own by hand, from the hub by `medheb retry` and the workflow"


def require_safetensors(folder: Path) -> list[Path]:
    """Weight files of a folder.

    Raises:
        MedhebError: there are none, only pickles, one that is none by content, or a part of a set is missing.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            if path.suffix in PICKLES:
                raise refused_pickle(path)
        raise MedhebError(folder, "holds no weights (*.safetensors)", GET_AGAIN)
    for path in files:
        require_head(path)
    for index in sorted(folder.glob("*.safetensors.index.json")):
        for name in sorted(set(read_settings(index).get("weight_map", {}).values())):
            if not (folder / name).is_file():
                raise MedhebError(folder / name, "is missing, one part of these weights", GET_AGAIN)
    return files


def refused_pickle(path: Path) -> MedhebError:
    """The refusal of a file that can run code when it is loaded."""
    return MedhebError(path, "is a pickle, which can run code when it is loaded", CONVERT)


def require_head(path: Path) -> None:
    """Refuse what is no safetensors file by its first bytes, whatever its name says.

    Raises:
        MedhebError: it is a pickle (or a zip of one), or something else.
    """
    with path.open("rb") as stream:
        head = stream.read(9)
    # The length of the header comes first, and may well begin as a pickle does: with byte 0x80, one file in 32.
    length = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and 8 + length <= path.stat().st_size:
        return
    if head.startswith((b"PK", b"\x80")):
        raise refused_pickle(path)
    raise MedhebError(path, "is not a safetensors file", GET_AGAIN)


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON file of a checkpoint.

    Raises:
        MedhebError: missing or not a JSON object.
    """
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MedhebError(path, "is missing", GET_AGAIN) from None
    except ValueError as error:
        raise MedhebError(path, f"is not JSON ({error})", GET_AGAIN) from error
    if not isinstance(content, dict):
        raise MedhebError(path, "is not a JSON object", GET_AGAIN)
    return content


def load_network(network: Any, folder: Path, placement: Placement, spare: Sequence[str] = ()) -> nn.Module:
    """A network of transformers with the weights of ``folder``, in evaluation mode, on its device.

    Args:
        network: a class with ``from_pretrained``.
        folder: the checkpoint.
        placement: device, number format and attention.
        spare: starts of the names of tensors that the network does not use, and that may be there all the same.

    Raises:
        MedhebError: no safetensors, a damaged file, or weights that do not fit: transformers would fill the gaps at
            random, and only warn.
    """
    from safetensors import SafetensorError
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    require_safetensors(folder)
    try:
        with load_reports():
            loaded, info = network.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=placement.dtype,
                attn_implementation=placement.attention,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise load_fault(folder, error) from error
    require_all_used(folder, info, spare)
    module: nn.Module = loaded.to(placement.device).eval()
    return module.requires_grad_(False)


def require_all_used(folder: Path, info: dict[str, Any], spare: Sequence[str] = ()) -> None:
    """Refuse weights that do not fit the network.

    Raises:
        MedhebError: parameters without a tensor, tensors of another shape, or tensors without a parameter.
    """
    found = [name for name in info["unexpected_keys"] if not name.startswith(tuple(spare))]
    unexpected = sorted(name for name in found if not name.endswith(COUNTERS))
    mismatched = sorted(str(entry[0] if isinstance(entry, tuple) else entry) for entry in info["mismatched_keys"])
    for names, what in (
        (sorted(info["missing_keys"]), "parameters have no weights"),
        (mismatched, "weights have another shape than the network"),
        (unexpected, "weights have no place in the network"),
    ):
        if names:
            raise MedhebError(folder, f"does not fit its model: {len(names)} {what}, the first is {names[0]}", FIT)


class _Keeper(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def load_reports() -> Iterator[list[str]]:
    """Keep the tables that transformers logs of weights that do not fit; the caller says it in one sentence.

    Yields a list that holds them after the block. All else that it logs is passed on when the block ends.
    """
    from transformers.utils.logging import get_verbosity

    get_verbosity()  # the library sets its handler up when it is first asked for anything
    library, keeper, reports = logging.getLogger("transformers"), _Keeper(), list[str]()
    before = library.handlers, library.propagate
    library.handlers, library.propagate = [keeper], False
    try:
        yield reports
    finally:
        library.handlers, library.propagate = before
        for record in keeper.records:
            message = record.getMessage()
            if REPORT in message:
                reports.append(COLOURS.sub("", message))
            else:
                library.handle(record)


def load_fault(where: Path, error: Exception) -> MedhebError:
    """The refusal of weights that a library could not read."""
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return MedhebError(where, f"cannot be loaded as weights ({reason})", GET_AGAIN)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a checkpoint.

    Raises:
        MedhebError: there is none.
    """
    from transformers import AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise MedhebError(folder, f"has no tokenizer that can be used ({_first_line(error)})", GET_AGAIN) from error
    template = folder / "chat_template.json"
    if getattr(tokenizer, "chat_template", None) is None and template.is_file():
        tokenizer.chat_template = read_settings(template).get("chat_template")
    return tokenizer


def load_image_processor(folder: Path) -> Any:
    """The image processor of a checkpoint, on Pillow.

    Raises:
        MedhebError: there is none.
    """
    from transformers import AutoImageProcessor

    try:
        return AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise MedhebError(folder, f"has no image processor ({_first_line(error)})", GET_AGAIN) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Rows scaled to length one, in float32."""
    import torch

    return torch.nn.functional.normalize(vectors.float(), dim=-1)
