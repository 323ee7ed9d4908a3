"""The rule book of regions: corners, masks, borders, readers' boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.imaging.boxes import (
    LEAST_SIDE,
    PixelBox,
    box_of_mask,
    box_of_mask_picture,
    clamp,
    cut,
    grow,
    grow_cell,
    largest,
    merge,
    not_negative,
    published_clamp,
    read_corners,
    sound_box,
    target_of,
)

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 90))
CORNERS = st.integers(-60, 150)
ANY_BOX = st.builds(PixelBox, CORNERS, CORNERS, CORNERS, CORNERS)


@st.composite
def boxes_inside(draw: st.DrawFn) -> tuple[PixelBox, tuple[int, int]]:
    """A picture size and a box with area in it."""
    width, height = draw(SIZES)
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return PixelBox(left, top, draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))), (width, height)


def inside(box: PixelBox, size: tuple[int, int]) -> bool:
    return 0 <= box.left < box.right <= size[0] and 0 <= box.top < box.bottom <= size[1]


def test_corners_are_numbers_or_texts_of_numbers_cut_off() -> None:
    assert read_corners(["12.9", 3, np.float32(40.2), " 50 "], "row 1") == PixelBox(12, 3, 40, 50)
    assert not_negative(read_corners([-0.9, -7.2, 5, 6], "row 1")) == PixelBox(0, 0, 5, 6)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"boxes.csv, row 7: has a corner that is no pixel position: x2 'nan'\. Mend the row"),
        ("inf", "is no pixel position: x2 'inf'"),
        (-math.inf, "is no pixel position: x2 '-inf'"),
        (1e300, "is no pixel position: x2 '1e.300'"),
        ("1e400", "is no pixel position"),
        (10**400, "is no number"),
        ("left", "is no number: x2 'left'"),
        ("12,5", "is no number: x2 '12,5'"),
        ("", "has no x2"),
        (" ", "has no x2"),
        (None, "has no x2"),
        (True, "is no pixel position"),
        ([3], "is no pixel position"),
    ],
)
def test_corners_that_are_no_numbers_name_their_row(value: object, message: str) -> None:
    with pytest.raises(MedhebError, match=message):
        read_corners([1, 2, value, 4], "boxes.csv, row 7")


def test_mask_box_is_half_open_and_can_lose_its_edge_as_published() -> None:
    mask = np.zeros((20, 30), dtype=np.uint8)
    mask[4:9, 7:8] = 255
    assert box_of_mask(mask) == PixelBox(7, 4, 8, 9)
    assert box_of_mask(mask, published_edge=True) is None
    mask[19, 29] = 1
    assert box_of_mask(mask) == PixelBox(7, 4, 30, 20)
    assert box_of_mask(mask, published_edge=True) == PixelBox(7, 4, 29, 19)
    assert box_of_mask(np.zeros((5, 5), dtype=bool)) is None
    assert box_of_mask_picture(Image.new("1", (5, 5))) is None
    assert box_of_mask(np.zeros((0, 5), dtype=bool)) is None
    assert box_of_mask(np.ones((1, 1), dtype=bool)) == PixelBox(0, 0, 1, 1)


@given(boxes_inside())
def test_a_mask_painted_from_a_box_gives_the_box(drawn: tuple[PixelBox, tuple[int, int]]) -> None:
    box, (width, height) = drawn
    mask = np.zeros((height, width), dtype=bool)
    mask[box.top : box.bottom, box.left : box.right] = True
    assert box_of_mask(mask) == box
    for picture in (Image.fromarray(mask), Image.fromarray(mask.astype(np.uint16) * 256)):
        assert box_of_mask_picture(picture) == box
    lost = box_of_mask(mask, published_edge=True)
    assert lost == (None if 1 in (box.width, box.height) else box._replace(right=box.right - 1, bottom=box.bottom - 1))


@given(ANY_BOX, SIZES)
def test_clamping_leaves_what_is_inside(box: PixelBox, size: tuple[int, int]) -> None:
    clamped = clamp(box, size)
    columns = [x for x in range(size[0]) if box.left <= x < box.right]
    rows = [y for y in range(size[1]) if box.top <= y < box.bottom]
    if not columns or not rows:
        assert clamped is None
        return
    assert clamped == PixelBox(columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    assert published_clamp(box, size) == clamped


def test_the_published_clamp_keeps_the_last_pixel_of_a_box_outside() -> None:
    assert published_clamp(PixelBox(70, 5, 90, 15), (60, 40)) == PixelBox(59, 5, 60, 15)
    assert published_clamp(PixelBox(5, 50, 15, 60), (60, 40)) == PixelBox(5, 39, 15, 40)
    assert published_clamp(PixelBox(-9, 5, -2, 15), (60, 40)) is None
    assert published_clamp(PixelBox(9, 5, 2, 15), (60, 40)) is None


@given(ANY_BOX, SIZES)
def test_sound_boxes_lie_inside_or_are_refused(box: PixelBox, size: tuple[int, int]) -> None:
    columns, rows = sorted((box.left, box.right)), sorted((box.top, box.bottom))
    ordered = PixelBox(columns[0], rows[0], columns[1], rows[1])
    expected = None if ordered.empty else clamp(ordered, size)
    if expected is None:
        with pytest.raises(MedhebError, match=r"^row 3: has a box (without area|outside of its picture)"):
            sound_box(box, size, "row 3")
    else:
        assert inside(expected, size)
        assert sound_box(box, size, "row 3") == expected


def test_unsound_boxes_are_told_with_their_corners() -> None:
    with pytest.raises(MedhebError, match=r"has a box outside of its picture: \(60, 3, 70, 9\) in 60 x 40"):
        sound_box(PixelBox(60, 3, 70, 9), (60, 40), "f.csv, row 3")
    with pytest.raises(MedhebError, match=r"has a box without area: \(5, 3, 5, 9\)"):
        sound_box(PixelBox(5, 3, 5, 9), (60, 40), "f.csv, row 3")


@given(ANY_BOX, SIZES, st.integers(1, 40))
def test_a_grown_box_is_inside_and_never_smaller_than_it_can_be(
    box: PixelBox, size: tuple[int, int], least: int
) -> None:
    grown = grow(box, size, least)
    assert inside(grown, size)
    assert grown.width == min(size[0], max(box.width, least))
    assert grown.height == min(size[1], max(box.height, least))


@given(boxes_inside())
def test_a_grown_box_keeps_what_it_held(drawn: tuple[PixelBox, tuple[int, int]]) -> None:
    box, size = drawn
    for grown in (grow(box, size), grow_cell(box, size)[0]):
        assert grown.left <= box.left
        assert grown.top <= box.top
        assert grown.right >= box.right
        assert grown.bottom >= box.bottom
        if box.width >= LEAST_SIDE and box.height >= LEAST_SIDE:
            assert grown == box


@pytest.mark.parametrize(
    ("box", "size", "grown"),
    [
        (PixelBox(50, 50, 77, 78), (100, 100), PixelBox(49, 50, 77, 78)),  # 27 wide: one column to the left
        (PixelBox(50, 50, 79, 79), (100, 100), PixelBox(50, 50, 79, 79)),  # 29: as it is
        (PixelBox(0, 0, 1, 1), (100, 100), PixelBox(0, 0, 28, 28)),
        (PixelBox(99, 0, 100, 1), (100, 100), PixelBox(72, 0, 100, 28)),
        (PixelBox(0, 99, 1, 100), (100, 100), PixelBox(0, 72, 28, 100)),
        (PixelBox(99, 99, 100, 100), (100, 100), PixelBox(72, 72, 100, 100)),
        (PixelBox(3, 3, 9, 9), (20, 20), PixelBox(0, 0, 20, 20)),
        (PixelBox(80, 10, 120, 60), (100, 100), PixelBox(60, 10, 100, 60)),  # shifted in, its size kept
        (PixelBox(0, 0, 300, 60), (100, 100), PixelBox(0, 0, 100, 60)),
        (PixelBox(60, 60, 40, 40), (100, 100), PixelBox(36, 36, 64, 64)),  # swapped: 28 about the centre
        (PixelBox(300, 300, 340, 350), (100, 100), PixelBox(60, 50, 100, 100)),
        (PixelBox(300, 10, 310, 60), (100, 100), PixelBox(72, 10, 100, 60)),
    ],
)
def test_growing_at_the_borders(box: PixelBox, size: tuple[int, int], grown: PixelBox) -> None:
    assert grow(box, size) == grown


@given(boxes_inside(), st.integers(1, 40))
def test_cells_grow_with_halves_to_even(drawn: tuple[PixelBox, tuple[int, int]], least: int) -> None:
    box, size = drawn
    grown, enlarged = grow_cell(box, size, least)
    assert inside(grown, size)
    assert grown.width == min(size[0], max(box.width, least))
    assert enlarged == (grown.width > box.width or grown.height > box.height)
    free = round((box.left + box.right) / 2 - grown.width / 2)
    assert grown.left == min(max(0, free), size[0] - grown.width)


def test_cells_at_exact_halves_and_in_short_pictures() -> None:
    # Middle 10.5 and 11.5: the left ends -3.5 and -2.5 of a 28 wide box are cut to 0; further in they go to even.
    assert grow_cell(PixelBox(50, 50, 51, 51), (256, 256)) == (PixelBox(36, 36, 64, 64), True)
    assert grow_cell(PixelBox(51, 51, 52, 52), (256, 256)) == (PixelBox(38, 38, 66, 66), True)
    assert grow(PixelBox(51, 51, 52, 52), (256, 256)) == PixelBox(37, 37, 65, 65)
    assert grow_cell(PixelBox(0, 0, 20, 30), (20, 256)) == (PixelBox(0, 0, 20, 30), False)


def test_the_largest_box_is_the_first_of_equals() -> None:
    first, second = PixelBox(0, 0, 4, 6), PixelBox(9, 9, 15, 13)
    assert largest([PixelBox(0, 0, 1, 1), first, second]) == first
    assert largest([PixelBox(9, 9, 1, 1), PixelBox(2, 2, 3, 3)]) == PixelBox(2, 2, 3, 3)
    assert largest([PixelBox(5, 5, 5, 9), PixelBox(9, 9, 1, 1)]) is None
    assert largest([]) is None


def test_readers_boxes_are_united_at_half_of_the_union_or_seven_tenths_of_the_smaller() -> None:
    base = PixelBox(0, 0, 30, 10)
    assert merge([base, PixelBox(10, 0, 40, 10)]) == [PixelBox(0, 0, 40, 10)]  # 20 of 40 columns
    assert merge([base, PixelBox(11, 0, 41, 10)]) == [base, PixelBox(11, 0, 41, 10)]
    assert merge([base, PixelBox(23, 0, 33, 10)]) == [PixelBox(0, 0, 33, 10)]  # 7 of its 10 columns
    assert merge([base, PixelBox(24, 0, 34, 10)]) == [base, PixelBox(24, 0, 34, 10)]
    flat = PixelBox(5, 5, 5, 9)
    assert merge([flat, base, flat]) == [base, flat, flat]
    assert merge([]) == []


def test_a_united_box_goes_to_the_end_and_is_compared_again() -> None:
    far = PixelBox(500, 500, 540, 540)
    one, other, third = PixelBox(0, 0, 10, 10), PixelBox(2, 0, 12, 10), PixelBox(4, 0, 14, 10)
    assert merge([one, far, other], published_order=True) == [far, PixelBox(0, 0, 12, 10)]
    assert merge([third, far, one, other], published_order=True) == [far, PixelBox(0, 0, 14, 10)]


def test_published_order_can_change_the_result_and_the_sorted_one_cannot() -> None:
    boxes = [PixelBox(0, 0, 100, 4), PixelBox(32, 0, 132, 4), PixelBox(64, 0, 164, 4)]
    orders = [boxes, boxes[::-1], [boxes[1], boxes[0], boxes[2]], [boxes[2], boxes[0], boxes[1]]]
    assert len({tuple(merge(order)) for order in orders}) == 1
    published = {tuple(sorted(merge(order, published_order=True))) for order in orders}
    assert len(published) > 1


@given(st.lists(st.builds(PixelBox, *[st.integers(0, 40)] * 4), max_size=7), st.randoms(use_true_random=False))
def test_merging_depends_on_no_order_and_ends(boxes: list[PixelBox], shuffler: object) -> None:
    merged = merge(boxes)
    shuffled = list(boxes)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge(shuffled) == merged
    assert sorted(merge(merged)) == sorted(merged)
    assert len(merged) <= len(boxes)
    for box in boxes:
        if box.area:
            assert any(_holds(outer, box) for outer in merged)


def _holds(outer: PixelBox, box: PixelBox) -> bool:
    return outer.left <= box.left and outer.top <= box.top and outer.right >= box.right and outer.bottom >= box.bottom


@given(boxes_inside())
def test_cutting_arrays_and_images_gives_the_same_pixels(drawn: tuple[PixelBox, tuple[int, int]]) -> None:
    box, (width, height) = drawn
    grey = (np.arange(width * height) % 251).astype(np.uint8).reshape(height, width)
    part = cut(grey, box)
    assert part.shape == (box.height, box.width)
    assert np.array_equal(part, np.asarray(cut(Image.fromarray(grey), box)))
    colour = np.stack([grey] * 3, axis=2)
    assert np.array_equal(cut(colour, box), np.asarray(cut(Image.fromarray(colour), box)))


@given(ANY_BOX, SIZES)
def test_cutting_outside_is_a_programming_error(box: PixelBox, size: tuple[int, int]) -> None:
    picture = Image.new("L", size)
    if inside(box, size):
        assert cut(picture, box).size == (box.width, box.height)
    else:
        with pytest.raises(ValueError, match="is not inside a picture"):
            cut(picture, box)


def test_cutting_keeps_a_mode_of_16_bit() -> None:
    deep = Image.fromarray(np.arange(400, dtype=np.uint16).reshape(20, 20) * 100)
    part = cut(deep, PixelBox(2, 3, 9, 8))
    assert part.mode == "I;16"
    assert int(np.asarray(part)[0, 0]) == (3 * 20 + 2) * 100


def test_targets_are_nested_only_when_there_are_several() -> None:
    assert target_of(["a"]) == ["a"]
    assert target_of(["a", "b"]) == [["a", "b"]]
    with pytest.raises(ValueError, match="at least one crop"):
        target_of([])
