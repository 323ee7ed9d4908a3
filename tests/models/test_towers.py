"""Towers: the right weights, the right arithmetic, no influence of the batch, errors instead of guesses."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import image_tower, text_tower, tiny_dinov2, write_onnx_like_an_exporter, write_tiny_bert

from medheb.core.errors import MedhebError
from medheb.models.tower_inputs import network_input, text_ids, tokens_cut
from medheb.models.towers import load_image_encoder, load_text_encoder


def pictures(n: int) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, (20 + i, 30), dtype=np.uint8)) for i in range(n)]


@pytest.fixture
def lite(tmp_path: Path) -> Path:
    from efficientnet_lite_pytorch import EfficientNet

    torch.manual_seed(0)
    torch.save(EfficientNet.from_name("efficientnet-lite0").state_dict(), tmp_path / "lite.pth")
    return tmp_path


def test_dinov2_read_from_onnx_gives_the_original_features(tmp_path: Path) -> None:
    model = tiny_dinov2()
    write_onnx_like_an_exporter(model, tmp_path / "net.onnx")
    tower = image_tower("dinov2", "net.onnx", 56)
    pixels = [network_input(picture, tower) for picture in pictures(3)]
    features = load_image_encoder(tower, tmp_path, batch_size=4)(pixels)
    with torch.inference_mode():
        expected = model(pixel_values=torch.from_numpy(np.stack(pixels))).last_hidden_state[:, 1:].mean(dim=1).numpy()
    np.testing.assert_allclose(features, expected, atol=1e-5)


@pytest.mark.parametrize("lost", ["layer.1.attention.output.dense.weight", "layernorm.bias", "projection.weight"])
def test_missing_parameters_are_an_error_not_random_numbers(tmp_path: Path, lost: str) -> None:
    write_onnx_like_an_exporter(tiny_dinov2(), tmp_path / "net.onnx", leave_out=lost)
    with pytest.raises(MedhebError, match=r"net\.onnx: cannot be loaded as weights"):
        load_image_encoder(image_tower("dinov2", "net.onnx", 56), tmp_path, batch_size=4)


def test_vectors_do_not_depend_on_the_batch(tmp_path: Path, lite: Path) -> None:
    write_onnx_like_an_exporter(tiny_dinov2(), tmp_path / "net.onnx")
    for tower in (image_tower("dinov2", "net.onnx", 56), image_tower("efficientnet_lite0", "lite.pth", 64)):
        encoder = load_image_encoder(tower, tmp_path, batch_size=4)
        pixels = [network_input(picture, tower) for picture in pictures(6)]
        whole = encoder(pixels)
        parts = np.concatenate([encoder(pixels[:1]), encoder(pixels[1:])])
        assert np.array_equal(whole, parts), tower.architecture


def test_text_vectors_are_masked_means_of_unit_length_whatever_the_batch(tmp_path: Path) -> None:
    model = write_tiny_bert(tmp_path / "bert")
    encoder = load_text_encoder(text_tower("bert"), tmp_path, batch_size=3)
    texts = ["left kidney", "the liver of the left kidney", "a b c d " * 6, "right kidney", "a"]
    ids = [text_ids(tmp_path / "bert", text, 40) for text in texts]
    vectors = encoder(ids)
    with torch.inference_mode():
        for one, vector in zip(ids, vectors, strict=True):
            mean = model(input_ids=torch.from_numpy(one)[None]).last_hidden_state[0].mean(dim=0)
            np.testing.assert_allclose(vector, torch.nn.functional.normalize(mean, dim=0), atol=1e-5)
    assert np.array_equal(vectors, np.concatenate([encoder(ids[:2]), encoder(ids[2:])]))


def test_long_texts_are_cut_at_the_limit(tmp_path: Path) -> None:
    write_tiny_bert(tmp_path / "bert")
    short, long = (text_ids(tmp_path / "bert", "a b c d " * times, 10) for times in (2, 3))
    assert len(short) == 10
    assert np.array_equal(short, long)
    assert tokens_cut(tmp_path / "bert", "a b c d " * 3, 10) == 4, "12 letters and two ends"
    assert tokens_cut(tmp_path / "bert", "a b c d", 10) == 0


@pytest.mark.parametrize("content", [b"", b"no weights at all", b"PK\x03\x04cut off"])
def test_damaged_weights_name_the_file(tmp_path: Path, content: bytes) -> None:
    for architecture, name in (("dinov2", "net.onnx"), ("efficientnet_lite0", "net.pth")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(MedhebError, match=rf"{name}: cannot be loaded as weights"):
            load_image_encoder(image_tower(architecture, name, 56), tmp_path, batch_size=2)


def test_pickled_code_in_weights_is_refused(tmp_path: Path) -> None:
    import os
    import pickle

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (tmp_path / "net.pth").write_bytes(pickle.dumps({"weight": Evil()}))
    with pytest.raises(MedhebError, match="cannot be loaded"):
        load_image_encoder(image_tower("efficientnet_lite0", "net.pth", 56), tmp_path, batch_size=2)
    assert not (tmp_path / "executed").exists()


def test_missing_weights_name_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"net\.onnx: is missing\. Fetch the model again"):
        load_image_encoder(image_tower("dinov2", "net.onnx", 56), tmp_path, batch_size=2)
