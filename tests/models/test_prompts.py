"""How inputs are written for the models that read one stream, and what is cut where they are too long."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import IMAGES, REFS, STREAMS, Tiny, as_text, settings_for, size_of, stream_arrays
from tiny_checkpoints import QWEN_SPECIALS, picture

from medheb.core.errors import MedhebError
from medheb.models.base import ImageRef
from medheb.models.qwen3vl import ended

MakeTiny = Callable[[str], Tiny]
Checkpoint = Callable[[str], Path]
RZEN = {"prompt": "rzen", "volumes": "pictures", "image_pixels": [200704, 1003520], "frame_pixels": [125440, 141120]}


# --- prompts


def test_vlm2vec_joins_pictures_instruction_and_text_by_blanks(tiny: MakeTiny, checkpoint: Checkpoint) -> None:
    model = tiny("vlm2vec")
    shown = as_text(model, stream_arrays(model, "what organ", REFS[:1], "Answer:")["input_ids"])
    assert shown == "<|vision_start|><|image_pad|>*6<|vision_end|> Answer: what organ"
    assert as_text(model, stream_arrays(model, "what organ")["input_ids"]) == "what organ"
    volume = as_text(model, stream_arrays(model, "", REFS[:5])["input_ids"])
    assert volume == "<|vision_start|><|video_pad|>*18<|vision_end|>", "three steps of time, one placeholder"
    bare = Tiny(settings_for("vlm2vec", vision_markers=False), checkpoint("vlm2vec"))
    assert as_text(bare, stream_arrays(bare, "liver", REFS[:1])["input_ids"]) == "<|image_pad|>*6 liver"


def test_rzen_has_its_own_template_and_no_separators(tiny: MakeTiny) -> None:
    model = tiny("rzen")
    assert as_text(model, stream_arrays(model, "what organ", REFS[:1], "Answer: ")["input_ids"]) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|>*6<|vision_end|>Answer:what organ<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
    )
    assert as_text(model, stream_arrays(model, "", REFS[:3])["input_ids"]).count("<|vision_start|>") == 3


def test_rzen_drops_the_question_only_where_it_is_told_to(tiny: MakeTiny, checkpoint: Checkpoint) -> None:
    published = Tiny(settings_for("rzen", text_beside_images=False), checkpoint("rzen"))
    first, second = (published.vector(text, REFS[:1], "Answer:") for text in ("what organ", "two cat"))
    assert first == pytest.approx(second, abs=1e-6), "as in the published adapter: questions never reach the model"
    texts = [published.vector(text, (), "Find:") for text in ("what organ", "two cat")]
    assert np.abs(texts[0] - texts[1]).max() > 1e-3, "text alone is read"


def test_plain_positions_are_another_vector(tiny: MakeTiny, checkpoint: Checkpoint) -> None:
    rows = Tiny(settings_for("rzen", positions="mrope"), checkpoint("rzen"))
    assert np.abs(rows.vector("liver", REFS[:1]) - tiny("rzen").vector("liver", REFS[:1])).max() > 1e-4
    assert rows.vector("liver") == pytest.approx(tiny("rzen").vector("liver"), abs=1e-5), "text counts the same in both"


def test_qwen3_follows_the_checkpoints_template(tiny: MakeTiny) -> None:
    model = tiny("qwen3vl")
    assert as_text(model, stream_arrays(model, "what organ", REFS[:1], "Answer the question")["input_ids"]) == (
        "<|im_start|>system\nAnswer the question.<|im_end|>\n<|im_start|>user\n"
        "<|vision_start|><|image_pad|>*6<|vision_end|>what organ<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "system\nRepresent the user's input.<|im_end|>" in as_text(model, stream_arrays(model, "liver")["input_ids"])


def test_qwen3_marks_the_time_of_each_pair_of_slices(tiny: MakeTiny) -> None:
    model = tiny("qwen3vl")
    shown = as_text(model, stream_arrays(model, "", REFS[:3])["input_ids"])
    assert "<0.2 seconds><|vision_start|><|video_pad|>*" in shown, "frames 0 and 1 at two a second"
    assert "<1.0 seconds><|vision_start|><|video_pad|>*" in shown, "frame 2 twice"
    assert shown.count("<|video_pad|>") == 2


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("Find it", "Find it."), ("Find it:", "Find it:"), (" Find it. ", "Find it."), ("Was?", "Was?")],
)
def test_instructions_end_with_punctuation(written: str, read_as: str) -> None:
    assert ended(written) == read_as


@pytest.mark.parametrize("name", STREAMS)
def test_the_vector_is_the_state_of_the_last_token(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    arrays = stream_arrays(model, "liver")
    with torch.inference_mode():
        network: Any = model.encoder.network  # type: ignore[attr-defined]
        states = network(input_ids=torch.from_numpy(arrays["input_ids"])[None]).last_hidden_state
    last = torch.nn.functional.normalize(states[0, -1], dim=0).numpy()
    assert model.vector("liver") == pytest.approx(last, abs=1e-5)


@pytest.mark.parametrize("word", QWEN_SPECIALS[6:])
def test_a_control_word_in_a_text_is_refused(tiny: MakeTiny, word: str) -> None:
    model = tiny("qwen3vl")
    with pytest.raises(MedhebError, match=r"holds the model's control word <\|"):
        model.vector(f"liver {word}")


# --- limits


@pytest.mark.parametrize(("name", "limit"), [("siglip", 16), ("blip2_itc", 12), ("medimageinsight", 16)])
def test_towers_cut_long_texts_at_the_end_and_count_them(checkpoint: Checkpoint, name: str, limit: int) -> None:
    model = Tiny(settings_for(name, max_tokens=limit), checkpoint(name))
    long = "chest x-ray with a small left pleural effusion " * 4
    (part,) = model.prepared(model.render(long))
    assert len(part.arrays["input_ids"]) == limit
    assert int(part.arrays["cut"]) > 0
    assert model.vector(long) == pytest.approx(model.vector(long + "and no pneumothorax"), abs=1e-6)
    assert int(model.prepared(model.render("liver"))[0].arrays["cut"]) == 0


@pytest.mark.parametrize("name", STREAMS)
def test_streams_cut_text_and_never_pictures(checkpoint: Checkpoint, name: str) -> None:
    model = Tiny(settings_for(name, max_tokens=150), checkpoint(name))
    arrays = stream_arrays(model, "left kidney " * 60, REFS[:1], "Find:")
    whole = stream_arrays(model, "liver", REFS[:1], "Find:")
    assert len(arrays["input_ids"]) <= 150
    assert int(arrays["cut"]) > 500
    pads = ("image_patches", "image_grids")
    assert all(np.array_equal(arrays[key], whole[key]) for key in pads)
    assert (arrays["types"] == 1).sum() == (whole["types"] == 1).sum() > 0
    # what frames the text stays, so that the last token is the one that the model was trained to answer at
    assert arrays["input_ids"][-1] == whole["input_ids"][-1] or name == "vlm2vec"
    assert np.linalg.norm(model.vector("left kidney " * 60, REFS[:1], "Find:")) == pytest.approx(1)
    with pytest.raises(MedhebError, match=r"needs \d+ tokens, the model reads 150, and pictures are never cut"):
        model.vector("", REFS[:64])


def test_the_length_of_a_cut_text_is_planned_too(checkpoint: Checkpoint) -> None:
    model = Tiny(settings_for("qwen3vl", max_tokens=200), checkpoint("qwen3vl"))
    rendered = model.render("left kidney " * 60, REFS[:1], "Find:")
    assert model.adapter.tokens(rendered, size_of) == model.prepared(rendered)[0].tokens <= 200


def test_slices_of_another_size_take_that_of_the_first(tiny: MakeTiny) -> None:
    wide = ImageRef("wide.png", "f" * 64)
    IMAGES[wide] = picture(5, (80, 40))
    try:
        model = tiny("vlm2vec")
        arrays = stream_arrays(model, "", (REFS[0], wide))
        assert arrays["video_grids"].tolist() == [[1, 4, 6]]
    finally:
        del IMAGES[wide]
