"""A damaged picture is decoded or refused by name, whatever of it is damaged."""

import random
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.embed.reading import ImageReader, decoded
from medheb.models.base import ImageRef


def content_of(kind: str) -> bytes:
    stream = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 30, 3), dtype=np.uint8)).save(stream, kind)
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_bytes_changed_at_random(kind: str) -> None:
    content, rng = content_of(kind), random.Random(1)
    said: list[str] = []
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 1, 2, 6))):
            damaged[rng.randrange(rng.choice((60, len(content))))] = rng.randrange(256)
        try:
            decoded(Path("x.png"), bytes(damaged))
        except MedhebError as error:
            said.append(str(error))
    assert 100 < len(said) < 1500
    assert all("x.png: is not a readable PNG or JPEG" in words or " pixels" in words for words in said)


@pytest.mark.parametrize("damage", ["head", "chunk", "empty"])
def test_pictures_of_which_pillow_raises_no_error_of_the_system(tmp_path: Path, damage: str) -> None:
    content = bytearray(content_of("PNG"))
    match damage:
        case "head":
            content[11] = 3  # length of the first chunk
        case "chunk":
            at = content.index(b"IDAT")
            content[at - 4 : at] = (40).to_bytes(4, "big")
        case "empty":
            content.clear()
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(MedhebError, match=r"x\.png: is not a readable PNG or JPEG"):
        ImageReader(tmp_path)(ImageRef("x.png", sha256_bytes(bytes(content))))
