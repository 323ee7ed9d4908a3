"""The loss against values worked out by hand, and the mask at its edges."""

from __future__ import annotations

import math

import pytest
import torch

from medheb.train.loss import false_negatives, info_nce

TAU, MARGIN = 0.5, 0.1
COSINES = torch.tensor([[0.6, 0.65, 0.2], [0.7, 0.5, 0.1], [0.3, 0.4, 0.8]])  # the diagonal is right


def rows_with(cosines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit queries and the three unit vectors of a frame, so that the cosines are the given ones."""
    rest = (1 - cosines.square().sum(1, keepdim=True)).clamp(min=0).sqrt()
    return torch.cat([cosines, rest], 1), torch.eye(3, 4)


def test_loss_against_hand_values() -> None:
    # Row 0: target 1 is 0.05 above the positive, within the margin, so it stays. Row 1: target 0 is 0.2 above: out.
    expected = 0.0
    for row, kept in enumerate([[0, 1, 2], [1, 2], [0, 1, 2]]):
        scores = {column: math.exp(COSINES[row, column].item() / TAU) for column in kept}
        expected -= math.log(scores[row] / sum(scores.values()))
    queries, targets = rows_with(COSINES)
    found = info_nce(queries, targets, torch.arange(3), temperature=TAU, margin=MARGIN)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    # On paper: ln((e^1.2 + e^1.3 + e^0.4) / e^1.2) + ln((e^1 + e^0.2) / e^1) + ln((e^0.6 + e^0.8 + e^1.6) / e^1.6)
    assert found.item() == pytest.approx(0.9379 + 0.3711 + 0.5973, abs=2e-4)


def test_loss_by_the_literal_equation_against_hand_values() -> None:
    # Whatever is above the positive is out: target 1 of row 0 as well, which the cosine's margin keeps.
    queries, targets = rows_with(COSINES)
    found = info_nce(queries, targets, torch.arange(3), temperature=0.01, margin=MARGIN, margin_on="exponential")
    # On paper: ln(1 + e^(20 - 60)) + ln(1 + e^(10 - 50)) + ln(1 + e^(40 - 80) + e^(30 - 80)), next to nothing.
    assert found.item() == pytest.approx(0.0, abs=1e-6)
    kept = info_nce(queries, targets, torch.arange(3), temperature=0.01, margin=MARGIN, margin_on="cosine")
    # On paper, row 0 alone: ln(1 + e^(65 - 60)).
    assert kept.item() == pytest.approx(5.0067, abs=1e-3)


def test_literal_equation_masks_whatever_is_above() -> None:
    # exp(0.65 / 0.01) exceeds exp(0.6 / 0.01) + 0.1 by far, though the cosines are 0.05 apart.
    masked = false_negatives(COSINES, torch.arange(3), 0.01, MARGIN, "exponential")
    assert masked.tolist() == [[False, True, False], [True, False, False], [False, False, False]]


@pytest.mark.parametrize("above", [0.0, 0.04, 0.05, 0.06])
def test_literal_equation_compares_exponentials(above: float) -> None:
    cosines = torch.tensor([[0.1, 0.1 + above]], dtype=torch.float64)
    margin = math.exp((0.1 + 0.05) / TAU) - math.exp(0.1 / TAU)
    masked = false_negatives(cosines, torch.tensor([0]), TAU, margin * (1 + 1e-9), "exponential")
    assert masked.tolist() == [[False, above > 0.05]]


def test_margin_is_strict_and_never_hits_the_positive() -> None:
    cosines = torch.tensor([[0.5, 0.75, 0.875], [0.25, 0.5, 0.25]])
    masked = false_negatives(cosines, torch.tensor([0, 1]), TAU, 0.25, "cosine")
    assert masked.tolist() == [[False, False, True], [False, False, False]]
    assert not false_negatives(cosines, torch.tensor([2, 1]), TAU, 0.0, "cosine")[0, 2]


def test_copies_of_the_positive_are_no_negatives() -> None:
    queries, targets = rows_with(torch.tensor([[0.6, 0.0, 0.2]]))
    targets = targets[[0, 0, 2]]
    equal = torch.tensor([[True, True, False]])
    options = {"temperature": TAU, "margin": MARGIN}
    alone = info_nce(queries[:1], targets[[0, 2]], torch.tensor([0]), **options)
    with_copy = info_nce(queries[:1], targets, torch.tensor([0]), equal=equal, **options)
    assert with_copy.item() == pytest.approx(alone.item())
    assert info_nce(queries[:1], targets, torch.tensor([0]), **options).item() > alone.item() + 0.1


def test_gradient_does_not_pass_through_the_mask() -> None:
    queries, targets = rows_with(COSINES)
    targets = targets.clone().requires_grad_()
    info_nce(queries[1:2], targets, torch.tensor([1]), temperature=TAU, margin=MARGIN).backward()
    assert targets.grad is not None
    assert targets.grad[0].abs().max() == 0  # masked for this query
    assert targets.grad[1].abs().max() > 0


def test_one_pair_alone_has_nothing_to_learn() -> None:
    queries, targets = rows_with(torch.tensor([[0.6, 0.1, 0.2]]))
    assert info_nce(queries, targets[:1], torch.tensor([0]), temperature=0.01, margin=0.1).item() == 0
