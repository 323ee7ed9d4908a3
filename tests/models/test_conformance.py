"""What every adapter must do, shown on tiny checkpoints of all architectures."""

import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from harness import REFS, STREAMS, TOWERS, Tiny, cosine, read, settings_for, size_of

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.embed.reading import ImageReader
from medheb.models.base import ImageRef

NAMES = (*TOWERS, *STREAMS)
SEEN = 1e-4  # a hundred times the noise of a batch: random networks tell texts apart by little
MakeTiny = Callable[[str], Tiny]
Checkpoint = Callable[[str], Path]


@pytest.mark.parametrize("name", NAMES)
def test_text_picture_and_64_slices_give_unit_vectors(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    for text, images in (("small pleural effusion", ()), ("what organ", REFS[:1]), ("", REFS[:64])):
        vector = model.vector(text, images, "Find it:")
        assert vector.dtype == np.float32
        assert vector.shape == (model.encoder.dimension,)
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_does_not_depend_on_its_batch(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    inputs = [
        model.render("liver", (), "Find it:"),
        model.render("chest x-ray with a small left pleural effusion and no pneumothorax"),
        model.render("what organ", REFS[:1]),
        model.render("", REFS[3:6]),
        model.render("what organ is shown in this slice", REFS[4:5]),
    ]
    parts = [part for rendered in inputs for part in model.prepared(rendered)]
    parts.sort(key=lambda part: -part.tokens)
    together = model.encoder.encode(parts)
    alone = np.concatenate([model.encoder.encode([part]) for part in parts])
    scale = np.abs(alone).max()
    assert np.abs(together - alone).max() <= 2e-5 * scale


@pytest.mark.parametrize("name", NAMES)
def test_text_changes_the_vector_beside_a_picture(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    first, second = (model.vector(text, REFS[:1], "Answer:") for text in ("what organ", "two small cat"))
    assert np.abs(first - second).max() > SEEN


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_changes_the_vector_beside_a_text(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    vectors = [model.vector("what organ", [ref]) for ref in (REFS[0], REFS[13])]
    assert np.abs(vectors[0] - vectors[1]).max() > SEEN


@pytest.mark.parametrize("name", NAMES)
def test_the_instruction_changes_the_vector(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    first, second = (
        model.vector("liver", (), words) for words in ("Find a report that matches:", "Represent the cat:")
    )
    assert np.abs(first - second).max() > SEEN


@pytest.mark.parametrize("name", STREAMS)
def test_the_order_of_slices_matters_to_a_stream(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    assert np.abs(model.vector("", REFS[:6]) - model.vector("", REFS[5::-1])).max() > SEEN


@pytest.mark.parametrize("name", TOWERS)
def test_the_order_of_slices_does_not_matter_to_towers(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    assert model.vector("", REFS[:6]) == pytest.approx(model.vector("", REFS[5::-1]), abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_65_slices_become_64_evenly_spaced(tiny: MakeTiny, name: str) -> None:
    rendered = tiny(name).render("", REFS[:65])
    assert len(rendered.images) == 64
    assert (rendered.images[0], rendered.images[-1]) == (REFS[0], REFS[64])
    # float64 linspace, then floor: of 0..64, the 33rd is left out
    numbers = [REFS.index(ref) for ref in rendered.images]
    assert numbers == [int(np.floor(place)) for place in np.linspace(0, 64, 64)]


@pytest.mark.parametrize("name", NAMES)
def test_length_is_known_before_anything_is_decoded(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    for rendered in (model.render("what organ", REFS[:1], "Find:"), model.render("", REFS[:5]), model.render("liver")):
        for part in model.adapter.parts(rendered):
            assert model.adapter.tokens(part, size_of) == model.adapter.prepare(part, read).tokens >= 1


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_works_the_same_in_another_process(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    (part, *_) = model.adapter.parts(model.render("liver", REFS[:1]))
    here = model.adapter.prepare(part, read)
    there = pickle.loads(pickle.dumps(model.adapter)).prepare(part, read)
    assert here.arrays.keys() == there.arrays.keys()
    assert all(np.array_equal(here.arrays[key], there.arrays[key]) for key in here.arrays)
    assert b"tokenizers" not in pickle.dumps(model.adapter), "nothing that was read travels"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_that_cannot_be_read_is_an_error_not_a_vector(tiny: MakeTiny, name: str, tmp_path: Path) -> None:
    whole = BytesIO()
    read(REFS[0]).save(whole, "PNG")
    for content, words in ((whole.getvalue()[:-400], "not a readable PNG or JPEG"), (b"<svg/>", "not a readable")):
        (tmp_path / "slice.png").write_bytes(content)
        broken = ImageRef("slice.png", sha256_bytes(content))
        model = tiny(name)
        (part, *_) = model.adapter.parts(model.render("what organ", [broken]))
        with pytest.raises(MedhebError, match=words):
            model.adapter.prepare(part, ImageReader(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_candidates_and_queries_without_instruction_share_their_parts(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    query = model.render("", REFS[:1], "", "query")
    candidate = model.render("", REFS[:1], "", "candidate")
    assert query.key == candidate.key


@pytest.mark.parametrize("name", TOWERS)
def test_towers_share_every_picture_and_text(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    query = model.render("liver", REFS[:1], "Find it:")
    keys = {part.key for part in model.adapter.parts(query)}
    assert len(keys) == 3
    assert {part.key for part in model.adapter.parts(model.render("", REFS[:1]))} < keys
    assert {part.key for part in model.adapter.parts(model.render("liver"))} < keys


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_close_to_float32(tiny: MakeTiny, checkpoint: Checkpoint, name: str) -> None:
    half = Tiny(settings_for(name, dtype="bfloat16"), checkpoint(name))
    vector = half.vector("what organ", REFS[:1], "Find it:")
    assert vector.dtype == np.float32
    assert cosine(vector, tiny(name).vector("what organ", REFS[:1], "Find it:")) > 0.99
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_grey_picture_counts_as_its_three_equal_channels(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    grey = read(REFS[2]).convert("L")
    (part, *_) = model.adapter.parts(model.render("", REFS[2:3]))
    first = model.adapter.prepare(part, lambda _: grey)
    second = model.adapter.prepare(part, lambda _: grey.convert("RGB"))
    assert all(np.array_equal(first.arrays[key], second.arrays[key]) for key in first.arrays)
