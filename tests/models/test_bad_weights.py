"""Weights that must be refused: pickles, wrong architectures, gaps, cut-off files. None may become a score."""

import json
import logging
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import REFS, STREAMS, TOWERS, Tiny, settings_for
from safetensors.torch import load_file, save_file

from medheb.core.errors import MedhebError
from medheb.models.hub_weights import load_reports, require_head

Checkpoint = Callable[[str], Path]
ON_TRANSFORMERS = ("siglip", "blip2_itc", "vlm2vec", "qwen3vl")


@pytest.fixture
def copied(checkpoint: Checkpoint, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(checkpoint(name), tmp_path / name))


def change(folder: Path, change_tensors: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change_tensors(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize("name", ON_TRANSFORMERS)
def test_pickled_weights_are_refused(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(
        MedhebError, match=r"pytorch_model.bin: is a pickle, which can run code when it is loaded. Convert it"
    ):
        Tiny(settings_for(name), folder)


@pytest.mark.parametrize("name", ON_TRANSFORMERS)
def test_a_pickle_named_safetensors_is_refused(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    torch.save({"a": torch.ones(1)}, folder / "model.safetensors")
    with pytest.raises(MedhebError, match=r"model.safetensors: is a pickle"):
        Tiny(settings_for(name), folder)


def test_the_length_of_a_header_may_begin_as_a_pickle_does(tmp_path: Path) -> None:
    """Lengths are multiples of 8, so one file in 32 begins with byte 0x80, the first one of a pickle."""
    path = tmp_path / "model.safetensors"
    for length in range(0, 256, 8):
        save_file({"a": torch.ones(1)}, path, metadata={"note": "x" * length})
        if path.read_bytes()[0] == 0x80:
            break
    assert path.read_bytes()[0] == 0x80
    require_head(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(MedhebError, match="is a pickle"):
        require_head(path)


def test_medimageinsight_is_told_apart_by_content(copied: Callable[[str], Path]) -> None:
    folder = copied("medimageinsight")
    path = folder / "vision_model" / "model.pt"
    torch.save(load_file(path), path)
    with pytest.raises(MedhebError, match=r"model.pt: is a pickle"):
        Tiny(settings_for("medimageinsight"), folder)
    path.write_bytes(pickle.dumps({}, protocol=4))
    with pytest.raises(MedhebError, match=r"model.pt: is a pickle"):
        Tiny(settings_for("medimageinsight"), folder)
    path.unlink()
    with pytest.raises(MedhebError, match=r"holds 0 weights files .* MedImageInsight has one. .*docs/models.md"):
        Tiny(settings_for("medimageinsight"), folder)


@pytest.mark.parametrize("name", [*ON_TRANSFORMERS, "medimageinsight"])
def test_a_missing_tensor_is_never_filled_at_random(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    path = next(folder.rglob("model.*t*s")) if name != "medimageinsight" else folder / "vision_model" / "model.pt"
    tensors = load_file(path)
    lost = sorted(key for key in tensors if key.endswith("weight"))[0]
    del tensors[lost]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(MedhebError, match=r"does not fit its model: 1 parameters have no weights|lacks "):
        Tiny(settings_for(name), folder)


@pytest.mark.parametrize("name", ["siglip", "blip2_itc", "vlm2vec", "qwen3vl"])
def test_a_tensor_without_a_place_is_refused(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    change(folder, lambda tensors: tensors.update({"extra.weight": torch.ones(2)}))
    with pytest.raises(MedhebError, match=r"1 weights have no place in the network, the first is extra.weight"):
        Tiny(settings_for(name), folder)


def test_gaps_are_told_by_one_sentence_not_by_the_librarys_table(
    copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, told = logging.getLogger("transformers"), Told()
    monkeypatch.setattr(library, "handlers", [told])
    folder = copied("siglip")
    change(folder, lambda tensors: tensors.pop("text_model.head.bias"))
    with pytest.raises(MedhebError, match=r"1 parameters have no weights, the first is text_model.head.bias"):
        Tiny(settings_for("siglip"), folder)
    assert not any("LOAD REPORT" in line for line in told.lines)
    with load_reports() as reports:
        library.warning("other trouble")
        library.warning("\x1b[1mNet LOAD REPORT\x1b[0m from: here")
    assert reports == ["Net LOAD REPORT from: here"]
    assert told.lines[-1:] == ["other trouble"], "what else the library has to say is passed on"


class Told(logging.Handler):
    """What reaches the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_the_head_that_writes_words_may_be_there(copied: Callable[[str], Path], tiny: Callable[[str], Tiny]) -> None:
    folder = copied("qwen3vl")
    change(folder, lambda tensors: tensors.update({"lm_head.weight": torch.ones(2, 2)}))
    model = Tiny(settings_for("qwen3vl"), folder)
    assert model.vector("liver") == pytest.approx(tiny("qwen3vl").vector("liver"), abs=1e-6)


def test_counters_of_older_checkpoints_may_be_there(copied: Callable[[str], Path], tiny: Callable[[str], Tiny]) -> None:
    folder = copied("siglip")
    counted = {"text_model.embeddings.position_ids": torch.arange(64)[None]}
    change(folder, lambda tensors: tensors.update(counted))
    model = Tiny(settings_for("siglip"), folder)
    assert model.vector("liver") == pytest.approx(tiny("siglip").vector("liver"), abs=1e-6)


def test_weights_of_another_shape_are_refused(copied: Callable[[str], Path]) -> None:
    folder = copied("siglip")
    change(folder, lambda tensors: tensors.update({"logit_bias": torch.ones(7)}))
    with pytest.raises(MedhebError, match=r"another shape|cannot be loaded as weights"):
        Tiny(settings_for("siglip"), folder)


def test_blip2_without_its_contrastive_heads_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """``AutoModel`` takes this checkpoint for another class, drops tensors and invents others, with a warning only."""
    from transformers import Blip2Config, Blip2Model

    folder = Path(shutil.copytree(checkpoint("blip2_itc"), tmp_path / "generating"))
    (folder / "model.safetensors").unlink()
    Blip2Model(Blip2Config.from_pretrained(folder)).save_pretrained(folder)
    with pytest.raises(MedhebError, match=r"does not fit its model: .* parameters have no weights"):
        Tiny(settings_for("blip2_itc"), folder)


@pytest.mark.parametrize("name", ["siglip", "qwen3vl"])
def test_a_cut_off_file_is_refused(copied: Callable[[str], Path], name: str) -> None:
    folder = copied(name)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(MedhebError, match="cannot be loaded as weights"):
        Tiny(settings_for(name), folder)


def test_a_missing_part_of_a_set_is_named(copied: Callable[[str], Path]) -> None:
    folder = copied("qwen3vl")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(MedhebError, match=r"model-00002-of-00002.safetensors: is missing, one part of these weights"):
        Tiny(settings_for("qwen3vl"), folder)


@pytest.mark.parametrize("name", [*TOWERS, *STREAMS])
def test_an_empty_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(MedhebError, match=r"holds no weights|holds 0 weights files"):
        Tiny(settings_for(name), tmp_path)


def test_code_beside_the_weights_is_never_run(copied: Callable[[str], Path], tiny: Callable[[str], Tiny]) -> None:
    folder = copied("qwen3vl")
    (folder / "evil.py").write_text("raise SystemExit('ran')\n")
    settings = json.loads((folder / "config.json").read_text())
    settings["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config", "AutoTokenizer": "evil.Tokenizer"}
    (folder / "config.json").write_text(json.dumps(settings))
    model = Tiny(settings_for("qwen3vl"), folder)
    assert model.vector("liver") == pytest.approx(tiny("qwen3vl").vector("liver"), abs=1e-6)


def old_qwen2(name: str) -> str:
    return name.replace("language_model.", "model.", 1) if name.startswith("language_model.") else name


@pytest.mark.parametrize(
    ("name", "published"),
    [("vlm2vec", old_qwen2), ("qwen3vl", lambda name: f"model.{name}")],
    ids=["vlm2vec", "qwen3vl"],
)
def test_checkpoints_as_the_hub_has_them_are_read(
    copied: Callable[[str], Path], tiny: Callable[[str], Tiny], name: str, published: Callable[[str], str]
) -> None:
    """Saved with a head that writes words, under the names of their time; Qwen2-VL with a flat configuration."""
    folder = copied(name)
    path = folder / "model.safetensors"
    tensors = {published(key): values.clone() for key, values in load_file(path).items()}
    save_file({**tensors, "lm_head.weight": torch.zeros(264, 32)}, path, metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    settings["architectures"] = [settings["architectures"][0].replace("Model", "ForConditionalGeneration")]
    if name == "vlm2vec":
        inner = settings.pop("text_config")
        rope = inner.pop("rope_parameters")
        inner |= {
            "rope_theta": rope["rope_theta"],
            "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]},
        }
        inner.pop("model_type")
        settings = {**inner, **settings}
    (folder / "config.json").write_text(json.dumps(settings))
    model = Tiny(settings_for(name), folder)
    for images in (REFS[:1], REFS[:4]):
        assert model.vector("liver", images) == pytest.approx(tiny(name).vector("liver", images), abs=1e-6)
