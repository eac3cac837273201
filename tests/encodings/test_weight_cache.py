"""Products of weights are kept at inference, and are those of the weights as they are."""

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.registry import ENCODINGS


def layer() -> Any:
    torch.manual_seed(0)
    return ENCODINGS.create(dict(type="PaPE", m=4), dim=16, depth=1, heads=2, position_dims=2).layer(0, 1)


def slopes(pape: Any) -> Tensor:
    return pape.token_weights(pape._fold_tokens, pape.wp, pape.wa, pape.wb)[:, pape.wa.shape[1] :]


def loaded(pape: Any) -> None:
    pape.load_state_dict({name: 2 * value for name, value in pape.state_dict().items()})


def in_place(pape: Any) -> None:
    pape.wb.mul_(2)


def moved(pape: Any) -> None:
    pape.double()


def replaced(pape: Any) -> None:
    pape.wp = nn.Parameter(2 * pape.wp)


@torch.no_grad()
@pytest.mark.parametrize("change", [loaded, in_place, moved, replaced])
def test_a_change_of_weights_is_seen(change: Callable[[Any], None]) -> None:
    pape = layer().eval()
    before = slopes(pape)
    assert slopes(pape).data_ptr() == before.data_ptr()
    change(pape)
    expected = pape.wp.mT @ pape.wb * pape.head_dim**-0.5
    assert not torch.equal(slopes(pape).double(), before.double()) or change is moved
    torch.testing.assert_close(slopes(pape), expected, rtol=0, atol=1e-7)
    assert slopes(pape).dtype == pape.wp.dtype


def test_what_learns_makes_it_anew_with_gradients() -> None:
    pape = layer()
    with torch.no_grad():
        kept = slopes(pape)
    slopes(pape).sum().backward()
    assert pape.wb.grad is not None
    assert pape.wp.grad is not None
    pape.train()
    with torch.no_grad():
        assert slopes(pape).data_ptr() != kept.data_ptr()
        before = slopes(pape)
    torch.optim.AdamW(pape.parameters(), lr=0.1).step()
    with torch.no_grad():
        assert not torch.equal(slopes(pape), before)


@torch.no_grad()
def test_weights_loaded_into_a_copy_are_used() -> None:
    pape = layer().eval()
    slopes(pape)
    other = copy.deepcopy(pape)
    loaded(other)
    torch.testing.assert_close(slopes(other), 4 * slopes(pape))


def test_it_is_in_no_checkpoint_and_goes_with_copies() -> None:
    pape = layer().eval()
    with torch.inference_mode():
        slopes(pape)
    assert set(pape.state_dict()) == {"wp", "wa", "wb"}
    torch.save(pape.state_dict(), io.BytesIO())
    other = copy.deepcopy(pape)
    with torch.no_grad():
        other.wp.mul_(3)
        torch.testing.assert_close(slopes(other), 3 * slopes(pape))
    slopes(other).sum().backward()  # what was made in inference mode is not met again
