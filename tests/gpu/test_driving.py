"""Cameras and LiDAR on a GPU: the sets, the maps and the boxes that the CPU finds, and a step in the recipe's fp16."""

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

from ndformer.framework.model import TokenModel
from ndformer.modalities.driving.models.unitr.places import SENSOR_PLANES, Flat
from tests.modalities.driving.test_network import batch, model

DEVICE = "cuda"
HEADS = ["CenterPoint", "TransFusion"]
ENCODINGS = ["PaPE", "ALiBi", "AxialRoPE", "LearnableMLP"]
pytestmark = [pytest.mark.filterwarnings("ignore:.*TensorFloat32.*")]


def there(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda one: one.to(DEVICE), value)


def truth() -> list[dict[str, Any]]:
    torch.manual_seed(2)
    boxes = torch.tensor([-4.0, -2, -1, 1, 2, 1, -3, -1, -1]) + torch.rand(2, 3, 9) * torch.tensor(
        [8.0, 4, 2, 1, 2, 1, 6, 2, 2]
    )
    return [dict(boxes=one, classes=torch.tensor([0, 1, 2]), path="a.bin") for one in boxes]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_gpu_finds_what_the_cpu_does(encoding: str) -> None:
    net, inputs = model("points", "images", encoding=encoding), batch()
    with torch.no_grad():
        expected = net(inputs)
        found = net.to(DEVICE)(there(inputs))
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-4)


def test_sets_and_their_order_are_the_same() -> None:
    net: Any = model("points", "images")
    tokens = net.tokens(batch())
    body, flats = net.backbone, [Flat.from_tokens(tokens), Flat.from_tokens(tokens.to(DEVICE))]
    body.needs_all_sets = True  # in one call, as on a GPU
    for kind in set(body.kinds):
        for name in SENSOR_PLANES if kind == "own" else (kind,):
            for moved in (False, True):
                here, away = (body.rows(name, flat, moved, 1)[0] for flat in flats)
                assert torch.equal(here.index, away.index.cpu())


@pytest.mark.parametrize("head", HEADS)
def test_it_learns_in_16_bit(head: str) -> None:
    """As the recipe does: near float32, and every gradient is finite."""
    found: list[tuple[float, TokenModel]] = []
    for enabled in (False, True):
        net = model("points", "images", head=head).to(DEVICE).train()
        with torch.autocast(DEVICE, torch.float16, enabled=enabled):
            loss = net.total(net(there(batch()), truth(), mode="loss"))
        loss.backward()
        found.append((loss.item(), net))
    (exact, _), (ours, net) = found
    assert ours == pytest.approx(exact, rel=0.05)
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in net.parameters())
