"""What every model with an encoding of ours in it is held to, whosever it is."""

import copy
import io
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

ENCODINGS = [
    "NoPE",
    "PaPE(m=5)",
    "PaPERI",
    "Sincos",
    "AxialRoPE",
    "RoPEMixed",
    "ALiBi",
    "LookHere",
    "RelativeBias",
    "LearnableAbsolute",
    "CPE",
    "LaPE",
    "GTA",  # transforms values and the output
    "PRoPE",  # images have no cameras: half of its channels have no position
    "AxialRoPE(periods=[None, 8])",
    "PaPE(m=5, periods=[None, 8])",
]
Call = Callable[[Any, Tensor], Tensor]  # the logits of a model


def images(height: int, width: int, count: int = 2) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(height))


def assert_trains(model: Any, call: Call) -> None:
    """Every weight gets a gradient, at a size of its own."""
    model.train()
    call(model, images(32, 48)).square().sum().backward()
    lost = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert lost == []
    model.eval()


def assert_any_size(model: Any, call: Call) -> None:
    """One image after another of another size, and again: nothing stays of the one before."""
    with torch.no_grad():
        first = call(model, images(64, 64))
        assert call(model, images(32, 80, 3)).shape[0] == 3
        torch.testing.assert_close(call(model, images(64, 64)), first)


def assert_kept(model: Any, anew: Any, call: Call) -> None:
    """By a state dict in a model of other random weights, a deep copy and a pickle, each on its own."""
    x = images(48, 64)
    with torch.no_grad():
        wanted = call(model, x)
        anew.eval().load_state_dict(model.state_dict())
        copied, pickled = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        whole = io.BytesIO()
        torch.save(model.state_dict(), whole)
        call(model, images(32, 32))  # the copies know nothing of it
        for one in (anew, copied, pickled):
            torch.testing.assert_close(call(one, x), wanted)


def assert_knows_places(model: Any, call: Call, blind: bool) -> None:
    """Patches that change places change the answer, unless there is no encoding. Some begin with zeros."""
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    x = images(64, 64)
    moved = x.unflatten(3, (4, 16))[:, :, :, [2, 0, 3, 1]].flatten(3, 4)
    with torch.no_grad():
        apart = (call(model, x) - call(model, moved)).abs().max()
    assert apart < 1e-5 if blind else apart > 1e-4


def assert_threads_keep_their_positions(model: Any, call: Call, block: Any) -> None:
    """Two threads with images of as many patches, each between the positions and the blocks of the other."""
    inputs = [images(32, 64), images(64, 32)]
    barrier = threading.Barrier(2)

    def wait(*given: Any) -> None:
        barrier.wait(30)

    with torch.no_grad():
        alone = [call(model, x) for x in inputs]
    block.register_forward_pre_hook(wait)
    with ThreadPoolExecutor(2) as pool:
        for output, expected in zip(pool.map(lambda x: call(model, x).detach(), inputs), alone):
            torch.testing.assert_close(output, expected)


def assert_masks_are_refused(block: Any, x: Tensor, **mask: Any) -> None:
    with pytest.raises(ValueError, match="not supported, as images have no padding"):
        block(x, **mask)
