"""Recipes of the single models: what they feed their network, against the libraries and the published arithmetic."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import REFS, Tiny, read, settings_for, stream_arrays
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_checkpoints import picture

from medheb.core.errors import MedhebError
from medheb.index.records import Item
from medheb.models.base import ImageRef
from medheb.models.pixels import Fit, Grid, frames_fit
from medheb.models.qwen2vl import Qwen2VL
from medheb.models.qwen3vl import Qwen3VL
from medheb.models.streams import read_grid

MakeTiny = Callable[[str], Tiny]
Checkpoint = Callable[[str], Path]
RZEN = {"prompt": "rzen", "volumes": "pictures", "image_pixels": [200704, 1003520], "frame_pixels": [125440, 141120]}


# --- SigLIP


def test_siglip_reads_full_length_without_a_mask(tiny: MakeTiny, checkpoint: Checkpoint) -> None:
    from transformers import AutoTokenizer, SiglipModel

    network = SiglipModel.from_pretrained(checkpoint("siglip")).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint("siglip"))
    model = tiny("siglip")
    ours = model.vector("small pleural effusion")

    def features(**inputs: Any) -> NDArray[np.float32]:
        with torch.inference_mode():
            row = network.get_text_features(**inputs).pooler_output[0]
        unit: NDArray[np.float32] = (row / row.norm()).numpy()
        return unit

    padded = tokenizer(["small pleural effusion"], padding="max_length", max_length=64, return_tensors="pt")
    right = features(input_ids=padded["input_ids"])
    assert ours == pytest.approx(right, abs=1e-5)
    mask = (padded["input_ids"] != tokenizer.pad_token_id).long()
    assert mask.sum() < 64
    masked = features(input_ids=padded["input_ids"], attention_mask=mask)
    short = features(input_ids=tokenizer(["small pleural effusion"], return_tensors="pt")["input_ids"])
    assert np.abs(masked - ours).max() > 1e-3, "a mask makes another vector"
    assert np.abs(short - ours).max() > 1e-3, "so does padding to the batch"


@pytest.mark.parametrize("name", ["siglip", "blip2_itc"])
def test_pictures_are_those_of_the_checkpoints_processor(tiny: MakeTiny, checkpoint: Checkpoint, name: str) -> None:
    from transformers import AutoImageProcessor

    model = tiny(name)
    processor = AutoImageProcessor.from_pretrained(checkpoint(name))
    (part,) = model.prepared(model.render("", REFS[:1]))
    mean, std = (
        np.array(values, dtype=np.float32)[:, None, None] for values in (processor.image_mean, processor.image_std)
    )
    ours = (part.arrays["pixels"].astype(np.float32) / 255 - mean) / std
    theirs = processor(images=read(REFS[0]), return_tensors="np")["pixel_values"][0]
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_bilinear_resizing_is_an_option_that_changes_pixels(checkpoint: Checkpoint, tiny: MakeTiny) -> None:
    other = Tiny(settings_for("siglip", resize="bilinear"), checkpoint("siglip"))
    first, second = (
        model.prepared(model.render("", REFS[:1]))[0].arrays["pixels"] for model in (other, tiny("siglip"))
    )
    assert first.shape == second.shape
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", ["siglip", "blip2_itc", "medimageinsight"])
def test_fields_are_averaged_as_the_paper_says(tiny: MakeTiny, name: str) -> None:
    model = tiny(name)
    rendered = model.render("liver", REFS[:3], "Find it:")
    rows = np.concatenate([model.encoder.encode([part]) for part in model.prepared(rendered)])
    if name != "siglip":
        assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    images = rows[:3].mean(axis=0)
    if name != "siglip":
        images /= np.linalg.norm(images)
    mean = np.mean([images, rows[3], rows[4]], axis=0)
    assert model.adapter.combine(rendered, rows) == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_the_instruction_can_be_left_out_of_towers(checkpoint: Checkpoint) -> None:
    model = Tiny(settings_for("siglip", instruction="none"), checkpoint("siglip"))
    assert model.render("liver", (), "Find it:").key == model.render("liver").key


# --- BLIP-2


def test_blip2_has_the_vectors_of_its_class(tiny: MakeTiny, checkpoint: Checkpoint) -> None:
    from transformers import AutoImageProcessor, AutoTokenizer, Blip2ForImageTextRetrieval

    network = Blip2ForImageTextRetrieval.from_pretrained(checkpoint("blip2_itc")).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint("blip2_itc"))
    pixels = AutoImageProcessor.from_pretrained(checkpoint("blip2_itc"))(images=read(REFS[0]), return_tensors="pt")
    with torch.inference_mode():
        found = network(**pixels, **tokenizer(["liver and spleen"], return_tensors="pt"))
    model = tiny("blip2_itc")
    mean = torch.nn.functional.normalize(found.image_embeds.mean(dim=1), dim=-1)[0]
    assert model.vector("", REFS[:1]) == pytest.approx(mean.numpy(), abs=1e-5)
    assert model.vector("liver and spleen") == pytest.approx(found.text_embeds[0].numpy(), abs=1e-5)
    first = Tiny(settings_for("blip2_itc", pooling="first"), checkpoint("blip2_itc"))
    assert first.vector("", REFS[:1]) == pytest.approx(found.image_embeds[0, 0].numpy(), abs=1e-5)


# --- MedImageInsight


def test_medimageinsight_reads_texts_in_both_directions_and_pools_at_the_end(tiny: MakeTiny) -> None:
    model = tiny("medimageinsight")
    (part,) = model.prepared(model.render("liver"))
    ids = part.arrays["input_ids"]
    assert ids.argmax() == len(ids) - 1, "the end of text has the highest number"
    text: Any = model.encoder.text  # type: ignore[attr-defined]
    with torch.inference_mode():
        embedded = text.token_embedding(torch.from_numpy(ids)[None]) + text.positional_embedding[: len(ids)]
        states = embedded
        for block in text.resblocks:
            width, heads = states.shape[-1], block.attn.num_heads
            normed = block.ln_1(states)
            joint = normed @ block.attn.in_proj_weight.T + block.attn.in_proj_bias
            query, key, value = (
                half.reshape(1, -1, heads, width // heads).transpose(1, 2) for half in joint.split(width, dim=-1)
            )
            weights = ((query @ key.transpose(-1, -2)) / (width // heads) ** 0.5).softmax(dim=-1)
            attended = (weights @ value).transpose(1, 2).reshape(1, -1, width)
            states = states + block.attn.out_proj(attended)
            inner = block.mlp["c_fc"](block.ln_2(states))
            states = states + block.mlp["c_proj"](inner * torch.sigmoid(1.702 * inner))
        expected = text.ln_final(states)[0, -1]
        found = text(torch.from_numpy(ids)[None], torch.ones(1, len(ids)))[0]
    assert torch.allclose(found, expected, atol=1e-5)


OLDER_NAMES = (
    ("image_encoder.convs.", "visual.conv_embeds."),
    ("image_encoder.blocks.", "visual.main_blocks."),
    ("image_encoder.", "visual."),
    ("lang_encoder.", "text."),
    ("image_projection", "vision_projection"),
    ("lang_projection", "text_projection"),
    (".spatial_block.conv1.fn.dw.", ".0.cpe.0.proj."),
    (".spatial_block.conv2.fn.dw.", ".0.cpe.1.proj."),
    (".spatial_block.window_attn.fn.", ".0.attn."),
    (".spatial_block.window_attn.norm.", ".0.norm1."),
    (".spatial_block.ffn.fn.net.", ".0.mlp."),
    (".spatial_block.ffn.norm.", ".0.norm2."),
    (".channel_block.conv1.fn.dw.", ".1.cpe.0.proj."),
    (".channel_block.conv2.fn.dw.", ".1.cpe.1.proj."),
    (".channel_block.channel_attn.fn.", ".1.attn."),
    (".channel_block.channel_attn.norm.", ".1.norm1."),
    (".channel_block.ffn.fn.net.", ".1.mlp."),
    (".channel_block.ffn.norm.", ".1.norm2."),
)


def test_medimageinsight_under_older_names_is_the_same(tiny: MakeTiny, checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint("medimageinsight"), tmp_path / "older"))
    path = folder / "vision_model" / "model.pt"
    tensors = {}
    for name, values in load_file(path).items():
        for new, old in OLDER_NAMES:
            name = name.replace(new, old)
        tensors[name] = values
    assert not any("spatial_block" in name or "encoder" in name for name in tensors)
    save_file(tensors, path)
    older = Tiny(settings_for("medimageinsight"), folder)
    for text, images in (("liver", ()), ("", REFS[:1])):
        assert older.vector(text, images) == pytest.approx(tiny("medimageinsight").vector(text, images), abs=1e-6)


def test_medimageinsight_can_stretch_percentiles(checkpoint: Checkpoint) -> None:
    model = Tiny(settings_for("medimageinsight", percentiles=[1, 99]), checkpoint("medimageinsight"))
    dark = Image.fromarray((np.asarray(picture(3), dtype=np.float32) / 4).astype(np.uint8))
    (part,) = model.adapter.parts(model.render("", REFS[:1]))
    pixels = model.adapter.prepare(part, lambda _: dark).arrays["pixels"]
    assert pixels.max() > 200
    flat = Image.new("RGB", (20, 20), (7, 7, 7))
    assert model.adapter.prepare(part, lambda _: flat).arrays["pixels"].max() == 7


# --- sizes and patches


@pytest.mark.parametrize(
    ("side", "qwen3_image", "qwen3_frames", "rzen", "vlm2vec"),
    [(28, 4, 4608, 10944, 128), (64, 4, 4608, 10944, 128), (256, 64, 4608, 10944, 2592), (512, 256, 7200, 10944, 5408)],
)
def test_tokens_are_those_of_the_published_rules(
    side: int, qwen3_image: int, qwen3_frames: int, rzen: int, vlm2vec: int
) -> None:
    """Pictures and 64 slices of one side; for Qwen3-VL without the time marks and template around them."""
    refs = [ImageRef(f"{number}.png", f"{number:064x}") for number in range(64)]

    def looks(model: Any, count: int) -> list[Any]:
        modality = "image" if count == 1 else "volume"
        rendered = model.render(Item(modality, "", tuple(ref.path for ref in refs[:count])), "", "query", refs[:count])
        found: list[Any] = model.looks(rendered, lambda _: (side, side))
        return found

    def tokens(model: Any, count: int) -> int:
        return sum(sum(model._counts([look], look.video)) for look in looks(model, count))

    def with_grid(model: Any) -> Any:
        size, defaults = model.grid_defaults["patch_size"], model.grid_defaults
        model._kept["grid"] = Grid(size, 2, 2, defaults["image_mean"], defaults["image_std"])
        return model

    nowhere = Path("nowhere")
    qwen3 = with_grid(Qwen3VL(settings_for("qwen3vl", volume_pixels=7_864_320), lambda: nowhere))
    assert tokens(qwen3, 1) == qwen3_image
    assert tokens(qwen3, 64) == qwen3_frames
    pictures = with_grid(Qwen2VL(settings_for("rzen", **RZEN), lambda: nowhere))
    assert tokens(pictures, 64) + 2 * 64 == rzen
    video = with_grid(Qwen2VL(settings_for("vlm2vec"), lambda: nowhere))
    assert tokens(video, 64) == vlm2vec


def test_fewer_frames_may_be_larger() -> None:
    assert frames_fit(30, 7_864_320).size((256, 256)) == (384, 384)
    assert frames_fit(64, 7_864_320).size((512, 512)) == (480, 480)
    assert frames_fit(4, 7_864_320).size((2000, 1000)) == (1248, 608)


def test_sizes_agree_with_transformers() -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    generator = np.random.default_rng(5)
    for width, height in generator.integers(30, 3000, (300, 2)).tolist():
        if max(width, height) > 100 * min(width, height):
            continue
        theirs = smart_resize(height, width, 28, 3136, 1_003_520)
        assert Fit(28, 3136, 1_003_520).size((width, height)) == theirs[::-1]


def test_a_strip_is_refused() -> None:
    with pytest.raises(
        MedhebError, match="a picture of 4000 x 10 pixels: is more than 200 times as long as it is wide"
    ):
        Fit(28, 3136, 1_003_520).size((4000, 10))


@pytest.mark.parametrize("name", ["vlm2vec", "qwen3vl"])
def test_patches_are_those_of_the_checkpoints_processor(tiny: MakeTiny, checkpoint: Checkpoint, name: str) -> None:
    from transformers import AutoImageProcessor

    model = tiny(name)
    low, high = (3136, 1_003_520) if name == "vlm2vec" else (4096, 1_843_200)
    processor = AutoImageProcessor.from_pretrained(
        checkpoint(name), size={"shortest_edge": low, "longest_edge": high}, min_pixels=None, max_pixels=None
    )
    theirs = processor(images=[read(REFS[0])], return_tensors="np")
    arrays = stream_arrays(model, "", REFS[:1])
    ours = model.encoder._normalised(arrays["image_patches"]).numpy()  # type: ignore[attr-defined]
    assert arrays["image_grids"].tolist() == theirs["image_grid_thw"].tolist()
    assert ours == pytest.approx(theirs["pixel_values"], abs=1e-5)


def test_frames_are_cut_in_pairs_and_the_last_is_repeated() -> None:
    grid = Grid(patch=2, merge=2, temporal=2, mean=(0, 0, 0), std=(1, 1, 1))
    frames = np.arange(3 * 8 * 4 * 3, dtype=np.uint8).reshape(3, 8, 4, 3)
    patches = grid.patches(frames)
    assert patches.shape == (grid.steps(3) * 4 * 2, 3, 2, 2, 2)
    # first patch: rows 0-1 and columns 0-1 of frames 0 and 1; the second lies right of it, the third below
    assert np.array_equal(patches[0, 1, 1], frames[1, :2, :2, 1])
    assert np.array_equal(patches[1, 2, 0], frames[0, :2, 2:4, 2])
    assert np.array_equal(patches[2, 0, 0], frames[0, 2:4, :2, 0])
    # second step: frame 2 twice
    assert np.array_equal(patches[8, 0, 0], patches[8, 0, 1])
    assert np.array_equal(patches[8, 0, 0], frames[2, :2, :2, 0])


def test_the_grid_of_a_checkpoint_is_read(checkpoint: Checkpoint) -> None:
    grid = read_grid(checkpoint("qwen3vl"), Qwen3VL.grid_defaults)
    assert (grid.patch, grid.merge, grid.temporal, grid.mean) == (16, 2, 2, (0.5, 0.5, 0.5))
