"""LoRA and DoRA adapters: they change the output, or loading fails; the base model is never scored in their name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import REFS, Tiny, settings_for
from safetensors.torch import load_file, save_file
from tiny_checkpoints import make_lora, write_json

from medheb.core.errors import MedhebError

Checkpoint = Callable[[str], Path]
MODELS = ("vlm2vec", "qwen3vl")


def network(name: str, folder: Path) -> torch.nn.Module:
    from transformers import Qwen2VLModel, Qwen3VLModel

    made: torch.nn.Module = (Qwen2VLModel if name == "vlm2vec" else Qwen3VLModel).from_pretrained(folder)
    return made


@pytest.fixture(scope="module")
def lora(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    made: dict[tuple[str, bool, bool], Path] = {}

    def folder(name: str, dora: bool = False, legacy: bool = False) -> Path:
        key = (name, dora, legacy)
        if key not in made:
            place = tmp_path_factory.mktemp("lora") / "adapter"
            made[key] = make_lora(network(name, checkpoint(name)), place, dora=dora, legacy=legacy)
        return made[key]

    return folder


def opened(name: str, checkpoint: Checkpoint, adapter: Path | None) -> Tiny:
    return Tiny(settings_for(name), checkpoint(name), adapter)


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("name", MODELS)
def test_the_adapter_is_what_peft_computes_and_not_the_base(
    checkpoint: Checkpoint, lora: Callable[..., Path], tiny: Callable[[str], Tiny], name: str, dora: bool
) -> None:
    from peft import PeftModel

    adapter = lora(name, dora)
    with_adapter = opened(name, checkpoint, adapter)
    base = tiny(name)
    assert np.abs(with_adapter.vector("liver", REFS[:1]) - base.vector("liver", REFS[:1])).max() > 1e-3
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.inference_mode():
        ours = with_adapter.encoder.network(input_ids=ids).last_hidden_state  # type: ignore[attr-defined]
        theirs = PeftModel.from_pretrained(network(name, checkpoint(name)).eval(), str(adapter))(input_ids=ids)
    assert torch.allclose(ours, theirs.last_hidden_state, atol=1e-4)


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("name", MODELS)
def test_old_layer_names_are_the_same_adapter(
    checkpoint: Checkpoint, lora: Callable[..., Path], name: str, dora: bool
) -> None:
    old, new = (opened(name, checkpoint, lora(name, dora, legacy)) for legacy in (True, False))
    assert old.vector("liver", REFS[:2]) == pytest.approx(new.vector("liver", REFS[:2]), abs=1e-5)


def test_peft_alone_scores_the_base_model_under_old_names(
    checkpoint: Checkpoint, lora: Callable[..., Path], tiny: Callable[[str], Tiny]
) -> None:
    """Why the tensors are placed here: the library warns and goes on without the adapter."""
    from peft import PeftModel

    with pytest.warns(UserWarning, match="missing adapter keys"):
        wrapped = PeftModel.from_pretrained(
            network("vlm2vec", checkpoint("vlm2vec")).eval(), str(lora("vlm2vec", legacy=True))
        )
    ids = torch.tensor([[3, 1, 4]])
    with torch.inference_mode():
        silent = wrapped(input_ids=ids).last_hidden_state
        base = tiny("vlm2vec").encoder.network(input_ids=ids).last_hidden_state  # type: ignore[attr-defined]
    assert torch.equal(silent, base)


@pytest.fixture
def broken(lora: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    def folder(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
        place = Path(shutil.copytree(lora("vlm2vec"), tmp_path / "broken"))
        path = place / "adapter_model.safetensors"
        save_file({name: values.contiguous() for name, values in change(load_file(path)).items()}, path)
        return place

    return folder


def test_tensors_of_another_model_are_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    adapter = broken(
        lambda tensors: {name.replace("layers.0", "layers.30"): values for name, values in tensors.items()}
    )
    with pytest.raises(
        MedhebError, match=r"does not fit: 4 of 8 tensors have no place in the base model, the first is "
    ):
        opened("vlm2vec", checkpoint, adapter)


def test_a_missing_half_is_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    adapter = broken(
        lambda tensors: {
            name: values for name, values in tensors.items() if "layers.1.self_attn.q_proj.lora_B" not in name
        }
    )
    with pytest.raises(
        MedhebError, match=r"does not fit: 1 parts of the adapter have no weights, the first is .*q_proj.lora_B"
    ):
        opened("vlm2vec", checkpoint, adapter)


def test_a_layer_without_tensors_is_refused_where_the_settings_name_kinds_of_layers(
    checkpoint: Checkpoint, broken: Callable[..., Path]
) -> None:
    adapter = broken(lambda tensors: {name: values for name, values in tensors.items() if "layers.1." not in name})
    path = adapter / "adapter_config.json"
    settings = json.loads(path.read_text())
    write_json(path, {**settings, "target_modules": ["q_proj", "v_proj"]})
    with pytest.raises(MedhebError, match=r"2 layers that its settings name have no tensors, the first is .*layers\.1"):
        opened("vlm2vec", checkpoint, adapter)
    for chosen in ({"layers_to_transform": 0}, {"layers_to_transform": [0]}, {"exclude_modules": r".*layers\.1\..*"}):
        write_json(path, {**settings, "target_modules": ["q_proj", "v_proj"], **chosen})
        opened("vlm2vec", checkpoint, adapter)


def test_tensors_of_another_rank_are_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    adapter = broken(
        lambda tensors: {name: values.repeat(1, 2) if "lora_A" in name else values for name, values in tensors.items()}
    )
    with pytest.raises(MedhebError, match="cannot be loaded as weights"):
        opened("vlm2vec", checkpoint, adapter)


def test_an_adapter_that_changes_nothing_is_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    adapter = broken(lambda tensors: {name: values * ("lora_B" not in name) for name, values in tensors.items()})
    with pytest.raises(MedhebError, match="changes nothing: the output is that of the base model"):
        opened("vlm2vec", checkpoint, adapter)


def test_whole_weights_beside_the_adapter_are_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    adapter = broken(
        lambda tensors: {**tensors, "base_model.model.language_model.embed_tokens.weight": torch.ones(2, 2)}
    )
    with pytest.raises(MedhebError, match="1 of 9 tensors have no place"):
        opened("vlm2vec", checkpoint, adapter)


def test_two_tensors_for_one_layer_are_refused(checkpoint: Checkpoint, broken: Callable[..., Path]) -> None:
    def twice(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return tensors | {name.replace("language_model", "model"): values * 2 for name, values in tensors.items()}

    with pytest.raises(MedhebError, match=r"two tensors have the same place, the second is base_model\.model\.model\."):
        opened("vlm2vec", checkpoint, broken(twice))


@pytest.mark.parametrize("kind", ["rank_pattern", "alpha_pattern"])
def test_a_rank_or_scale_for_a_layer_that_is_not_found_is_refused(
    checkpoint: Checkpoint, broken: Callable[..., Path], kind: str
) -> None:
    """The library would scale such a layer as all others, and only warn."""
    adapter = broken(lambda tensors: tensors)
    path = adapter / "adapter_config.json"
    settings = json.loads(path.read_text())
    number = settings["r"]
    write_json(path, {**settings, kind: {"model.layers.0.self_attn.q_proj": number}})
    with pytest.raises(MedhebError, match=rf"adapter_config.json: has a {kind} for model\.layers\.0"):
        opened("vlm2vec", checkpoint, adapter)
    write_json(path, {**settings, kind: {"layers.0.self_attn.q_proj": number}})
    opened("vlm2vec", checkpoint, adapter)


def test_a_pickled_adapter_is_refused(checkpoint: Checkpoint, lora: Callable[..., Path], tmp_path: Path) -> None:
    place = Path(shutil.copytree(lora("vlm2vec"), tmp_path / "pickled"))
    torch.save(load_file(place / "adapter_model.safetensors"), place / "adapter_model.bin")
    (place / "adapter_model.safetensors").unlink()
    with pytest.raises(MedhebError, match=r"adapter_model.bin: is a pickle, which can run code"):
        opened("vlm2vec", checkpoint, place)


def test_a_faulty_description_is_refused(checkpoint: Checkpoint, lora: Callable[..., Path], tmp_path: Path) -> None:
    place = Path(shutil.copytree(lora("vlm2vec"), tmp_path / "faulty"))
    settings = json.loads((place / "adapter_config.json").read_text())
    write_json(place / "adapter_config.json", {**settings, "peft_type": "NOTHING"})
    with pytest.raises(MedhebError, match="cannot be loaded as weights"):
        opened("vlm2vec", checkpoint, place)
    (place / "adapter_config.json").unlink()
    with pytest.raises(MedhebError, match=r"adapter_config.json: is missing"):
        opened("vlm2vec", checkpoint, place)


def test_the_adapters_own_tokenizer_is_preferred(
    checkpoint: Checkpoint, lora: Callable[..., Path], tmp_path: Path
) -> None:
    place = Path(shutil.copytree(lora("qwen3vl"), tmp_path / "own"))
    model = opened("qwen3vl", checkpoint, place)
    assert model.adapter.folder == checkpoint("qwen3vl")  # type: ignore[attr-defined]
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "chat_template.jinja"):
        shutil.copy(checkpoint("qwen3vl") / name, place)
    again = opened("qwen3vl", checkpoint, place)
    assert again.adapter.folder == place  # type: ignore[attr-defined]
    assert again.vector("liver") == pytest.approx(model.vector("liver"), abs=1e-6)
