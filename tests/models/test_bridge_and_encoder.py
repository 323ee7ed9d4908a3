"""The bridge learns what can be learnt, and the dual encoder keeps its three blocks apart."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.models.base import ImageRef, Rendered
from medheb.models.bridge import FittedBridge, fit_bridge, read_bridge, unit_rows, write_bridge
from medheb.models.canaries import ConstantEncoder, RandomEncoder
from medheb.models.dual_encoder import DualEncoder

RNG = np.random.default_rng(0)
TRUTH = RNG.standard_normal((12, 5)).astype(np.float32)


def pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    images = RNG.standard_normal((n, 12)).astype(np.float32)
    return images, unit_rows(images @ TRUTH)


def test_bridge_carries_over_to_images_it_never_saw() -> None:
    bridge = fit_bridge(*pairs(400), ridge=0.01)
    images, texts = pairs(50)
    similarity = bridge.bridged_image(images) @ bridge.centred_text(texts).T
    assert (similarity.argmax(axis=1) == np.arange(50)).mean() > 0.8


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least 20 pairs, has 3 images"):
        fit_bridge(*pairs(3), ridge=0.1)


def test_bridge_file_round_trip_and_damage(tmp_path: Path) -> None:
    bridge = fit_bridge(*pairs(40), ridge=0.1)
    path = tmp_path / "bridge.safetensors"
    write_bridge(path, bridge)
    first = path.read_bytes()
    write_bridge(path, bridge)
    assert path.read_bytes() == first
    assert np.array_equal(read_bridge(path)[0].weight, bridge.weight)
    path.write_bytes(first[:50])
    with pytest.raises(MedhebError, match="is not a fitted bridge"):
        read_bridge(path)


class Pixels:
    """Image tower of the test: mean grey value and its square."""

    def __call__(self, images: Iterable[Image.Image]) -> np.ndarray:
        grey = np.array([np.asarray(image).mean() / 255 for image in images], dtype=np.float32)
        return np.stack([grey, grey**2], axis=1)


class Lengths:
    """Text tower of the test."""

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        return unit_rows(np.array([[len(text), 1, text.count("a")] for text in texts], dtype=np.float32))


def encoder() -> DualEncoder:
    weight = np.array([[1, 0, 0.5], [0, 1, -0.5]], dtype=np.float32)
    return DualEncoder(Pixels(), Lengths(), FittedBridge(np.zeros(2, "f4"), np.zeros(3, "f4"), weight))


def image(level: int) -> ImageRef:
    return ImageRef(f"{level}.png", f"{level:064x}")


def read(ref: ImageRef) -> Image.Image:
    return Image.new("L", (4, 4), int(ref.path.split(".")[0]))


def test_blocks_of_text_image_and_both() -> None:
    text, picture, both = encoder().encode(
        [
            Rendered("text", text="aa"),
            Rendered("image", images=(image(100),)),
            Rendered("image", text="aa", images=(image(100),)),
        ],
        read,
    )
    assert np.all(text[:2] == 0)
    assert np.all(picture[-3:] == 0)
    np.testing.assert_allclose(both, unit_rows((text + picture)[None] / 2)[0], atol=1e-6)
    assert all(np.linalg.norm(vector) == pytest.approx(1) for vector in (text, picture, both))


def test_volume_is_the_mean_of_its_slices() -> None:
    one, two, volume = encoder().encode(
        [
            Rendered("image", images=(image(10),)),
            Rendered("image", images=(image(200),)),
            Rendered("volume", images=(image(10), image(200))),
        ],
        read,
    )
    np.testing.assert_allclose(volume, unit_rows((one + two)[None])[0], atol=1e-6)


def test_keys_see_content_not_paths() -> None:
    same = Rendered("image", images=(ImageRef("other/path.png", image(3).sha256),))
    assert Rendered("image", images=(image(3),)).key == same.key
    assert Rendered("image", text="x", images=(image(3),)).key != same.key
    assert Rendered("volume", images=(image(3), image(4))).key != Rendered("volume", images=(image(4), image(3))).key


def test_canaries() -> None:
    inputs = [Rendered("text", text=text) for text in ("a", "b", "a")]
    rows = RandomEncoder(16).encode(inputs, read)
    assert np.array_equal(rows[0], rows[2])
    assert abs(float(rows[0] @ rows[1])) < 0.9
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert len(np.unique(ConstantEncoder(8).encode(inputs, read))) == 1
