"""The bridge learns what can be learnt, and the dual encoder keeps its three blocks apart."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny import image_tower, write_tiny_bert

from medheb.core.errors import MedhebError
from medheb.models.base import ImageRef, Rendered
from medheb.models.bridge import FittedBridge, fit_bridge, read_bridge, unit_rows, write_bridge
from medheb.models.canaries import CanaryAdapter, ConstantEncoder, RandomEncoder
from medheb.models.dual_encoder import DualEncoder, DualEncoderAdapter

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


TOWER = image_tower("dinov2", "net.onnx", 28)


class Pixels:
    """Image tower of the test: mean value and its square."""

    def __call__(self, images: Iterable[np.ndarray]) -> np.ndarray:
        mean = np.array([image.mean() for image in images], dtype=np.float32)
        return np.stack([mean, mean**2], axis=1)


class Lengths:
    """Text tower of the test."""

    def __call__(self, texts: Sequence[np.ndarray]) -> np.ndarray:
        return unit_rows(np.array([[len(ids), 1, ids.max()] for ids in texts], dtype=np.float32))


def image(level: int) -> ImageRef:
    return ImageRef(f"{level}.png", f"{level:064x}")


def read(ref: ImageRef) -> Image.Image:
    return Image.new("L", (4, 4), int(ref.path.split(".")[0]))


@pytest.fixture
def adapter(tmp_path: Path) -> DualEncoderAdapter:
    write_tiny_bert(tmp_path / "bert")
    return DualEncoderAdapter(TOWER, tmp_path / "bert", 40)


def vectors_of(adapter: DualEncoderAdapter, *inputs: Rendered) -> list[np.ndarray]:
    weight = np.array([[1, 0, 0.5], [0, 1, -0.5]], dtype=np.float32)
    encoder = DualEncoder(Pixels(), Lengths(), FittedBridge(np.zeros(2, "f4"), np.zeros(3, "f4"), weight))
    found = []
    for rendered in inputs:
        rows = [encoder.encode([adapter.prepare(part, read)]) for part in adapter.parts(rendered)]
        assert all(row.shape == (1, encoder.dimension) for row in rows)
        found.append(adapter.combine(rendered, np.concatenate(rows)))
    return found


def test_blocks_of_text_image_and_both(adapter: DualEncoderAdapter) -> None:
    text, picture, both = vectors_of(
        adapter,
        Rendered("text", text="a b"),
        Rendered("image", images=(image(100),)),
        Rendered("image", text="a b", images=(image(100),)),
    )
    assert np.all(text[:2] == 0)
    assert np.all(picture[-3:] == 0)
    np.testing.assert_allclose(both, unit_rows((text + picture)[None] / 2)[0], atol=1e-6)
    assert all(np.linalg.norm(vector) == pytest.approx(1) for vector in (text, picture, both))


def test_volume_is_the_mean_of_its_slices(adapter: DualEncoderAdapter) -> None:
    one, two, volume = vectors_of(
        adapter,
        Rendered("image", images=(image(10),)),
        Rendered("image", images=(image(200),)),
        Rendered("volume", images=(image(10), image(200))),
    )
    np.testing.assert_allclose(volume, unit_rows((one + two)[None])[0], atol=1e-6)


def test_tasks_share_every_image_and_text(adapter: DualEncoderAdapter) -> None:
    question, candidate, volume, label = (
        Rendered("image", text="a", images=(image(1),)),
        Rendered("image", images=(image(1),)),
        Rendered("volume", images=(image(1), image(2))),
        Rendered("text", text="a"),
    )
    keys = {part.key for rendered in (question, candidate, volume, label) for part in adapter.parts(rendered)}
    assert len(keys) == 3, "two images and a text"


def test_length_is_known_before_anything_is_decoded(adapter: DualEncoderAdapter) -> None:
    def size_of(ref: ImageRef) -> tuple[int, int]:
        raise AssertionError("a square network input needs no size")

    for rendered in (Rendered("text", text="a b c"), Rendered("image", images=(image(1),))):
        (part,) = adapter.parts(rendered)
        assert adapter.tokens(part, size_of) == adapter.prepare(part, read).tokens


def test_keys_see_content_not_paths() -> None:
    same = Rendered("image", images=(ImageRef("other/path.png", image(3).sha256),))
    assert Rendered("image", images=(image(3),)).key == same.key
    assert Rendered("image", text="x", images=(image(3),)).key != same.key
    assert Rendered("volume", images=(image(3), image(4))).key != Rendered("volume", images=(image(4), image(3))).key


def test_canaries() -> None:
    adapter = CanaryAdapter()
    inputs = [Rendered("text", text=text) for text in ("a", "b", "a")]
    prepared = [adapter.prepare(part, read) for rendered in inputs for part in adapter.parts(rendered)]
    rows = RandomEncoder(16).encode(prepared)
    assert np.array_equal(rows[0], rows[2])
    assert abs(float(rows[0] @ rows[1])) < 0.9
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert len(np.unique(ConstantEncoder(8).encode(prepared))) == 1


def test_random_vectors_follow_pixels_not_the_bytes_of_a_file() -> None:
    adapter = CanaryAdapter()
    files = [
        ImageRef("a.png", "1" * 64, "pix1:x"),
        ImageRef("b.png", "2" * 64, "pix1:x"),
        ImageRef("c.png", "1" * 64, "pix1:y"),
    ]
    inputs = [Rendered("image", images=(file,)) for file in files]
    assert inputs[0].key != inputs[1].key, "stored under the bytes"
    same, again, other = RandomEncoder(16).encode([adapter.prepare(part, read) for part in inputs])
    assert np.array_equal(same, again)
    assert not np.array_equal(same, other)
