"""Any model of the library sentence-transformers, on a tiny one that the test builds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import REFS, Tiny, settings_for
from safetensors.torch import load_file, save_file
from tiny_checkpoints import WORDS, spread

from medheb.core.errors import MedhebError
from medheb.models.base import CutsTexts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    place = tmp_path_factory.mktemp("sentence")
    inner = place / "bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(WORDS.split())), ":"]
    BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(inner)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    spread(BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)), 0.1).save_pretrained(
        inner
    )
    tower = Transformer(str(inner), max_seq_length=48)
    SentenceTransformer(modules=[tower, Pooling(32)], device="cpu").save(str(place / "model"))
    return place / "model"


@pytest.fixture(scope="module")
def model(folder: Path) -> Tiny:
    return Tiny(settings_for("sentence_transformers"), folder)


def test_it_has_the_vectors_of_the_library(model: Tiny, folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(folder), device="cpu")
    expected = library.encode(["Find it: small left pleural effusion"], normalize_embeddings=True)[0]
    assert model.vector("small left pleural effusion", (), "Find it:") == pytest.approx(expected, abs=1e-5)


def test_unit_vectors_that_depend_on_text_and_instruction(model: Tiny) -> None:
    vectors = [model.vector("liver"), model.vector("kidney"), model.vector("liver", (), "represent the")]
    for vector in vectors:
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector.shape == (model.encoder.dimension,)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3


def test_a_row_does_not_depend_on_its_batch(model: Tiny) -> None:
    texts = ["a report that matches the given image", "liver", "small tumor in the brain"]
    parts = [part for text in texts for part in model.prepared(model.render(text))]
    together = model.encoder.encode(parts)
    alone = np.concatenate([model.encoder.encode([part]) for part in parts])
    assert together == pytest.approx(alone, abs=1e-4)


def test_the_instruction_can_be_left_out(folder: Path) -> None:
    silent = Tiny(settings_for("sentence_transformers", instruction="none"), folder)
    assert silent.render("liver", (), "Find it:").key == silent.render("liver").key


def test_a_limit_cuts_texts(folder: Path) -> None:
    short = Tiny(settings_for("sentence_transformers", max_tokens=8), folder)
    long = "small left pleural effusion with a tumor in the brain and spleen"
    assert short.vector(long) == pytest.approx(short.vector(f"{long} and liver"), abs=1e-6)


def test_texts_that_the_library_cuts_are_counted(folder: Path, model: Tiny) -> None:
    short = Tiny(settings_for("sentence_transformers", max_tokens=8), folder)
    for tiny, expected in ((short, [False, True]), (model, [False, False])):
        parts = [
            *tiny.prepared(tiny.render("liver")),
            *tiny.prepared(tiny.render("small left pleural effusion and no pneumothorax")),
        ]
        assert isinstance(tiny.encoder, CutsTexts)
        assert tiny.encoder.cut(parts) == expected


def test_a_task_with_pictures_is_refused_for_a_model_of_texts(model: Tiny) -> None:
    with pytest.raises(
        MedhebError, match=r"reads texts only, and this task has pictures. Leave the task out, or set 'inputs"
    ):
        model.render("", REFS[:1])


def test_pickled_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    path = copy / "model.safetensors"
    torch.save(load_file(path), copy / "pytorch_model.bin")
    path.unlink()
    with pytest.raises(MedhebError, match=r"pytorch_model.bin: is a pickle"):
        Tiny(settings_for("sentence_transformers"), copy)


def test_gaps_are_never_filled_at_random(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "model"))
    path = copy / "model.safetensors"
    tensors = load_file(path)
    pooler = {name for name in tensors if name.startswith("pooler.")}
    save_file({name: tensors[name] for name in tensors if name not in pooler}, path, metadata={"format": "pt"})
    assert Tiny(settings_for("sentence_transformers"), copy).vector("liver") is not None, "the pooler is not used"
    lost = "encoder.layer.1.output.dense.weight"
    save_file({name: tensors[name] for name in tensors if name != lost}, path, metadata={"format": "pt"})
    with pytest.raises(MedhebError, match=rf"does not fit its model: no weights for {lost} and 0 more"):
        Tiny(settings_for("sentence_transformers"), copy)


def test_modules_of_other_packages_are_not_imported(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    modules = json.loads((copy / "modules.json").read_text())
    modules[1]["type"] = "antigravity.Module"
    (copy / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(MedhebError, match=r"names antigravity.Module, a class of another package"):
        Tiny(settings_for("sentence_transformers"), copy)
    assert "antigravity" not in sys.modules
    (copy / "modules.json").unlink()
    with pytest.raises(MedhebError, match="is no list of modules of sentence-transformers"):
        Tiny(settings_for("sentence_transformers"), copy)


def test_adapters_come_without_torch_and_clients_of_hosts() -> None:
    """Every evaluation and every worker process loads them."""
    program = (
        "import sys, medheb.models.load; "
        "print(sorted(sys.modules.keys() & {'torch', 'transformers', 'peft', 'sentence_transformers', 'requests'}))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
