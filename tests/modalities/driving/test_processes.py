"""Two processes train a network of two sensors as one does, also if the sample of one lacks a sensor."""

from typing import Any

import pytest
import torch

from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, clip_grad_norm, parallelize
from ndformer.framework.system import processes
from tests.modalities.driving.test_network import batch, model
from tests.spawned import spawned


def losses(parallel: str, head: str, encoding: Any, lacking: str | None) -> list[float]:
    net, inputs = model("points", "images", encoding=encoding, head=head).train(), batch()
    for module in net.modules():  # without dropout, as processes draw other numbers
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    torch.manual_seed(0)
    boxes = torch.rand(3, 9) + torch.tensor([2.0, 1, 0, 1, 1, 1, 0, 0, 0])
    samples = [dict(boxes=boxes[:n], classes=torch.arange(n) % 3, path="") for n in (3, 1)]
    if lacking is not None:
        inputs[lacking] = [inputs[lacking][0], None]
    if processes.count() > 1:
        own = slice(processes.rank(), processes.rank() + 1)
        inputs, samples = {name: value[own] for name, value in inputs.items()}, samples[own]
    running = parallelize(net, Parallel.from_config(dict(parallel=parallel)))
    optimizer = build_optimizer(net, dict(type="AdamW", lr=1e-3, eps=1e-3))
    found = []
    for _ in range(2):
        loss = net.total(running(inputs, samples, mode="loss"))
        loss.backward()
        clip_grad_norm(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(processes.mean(loss.detach()).item())
    return found


@pytest.mark.parametrize(
    "parallel, head, encoding, lacking",
    [
        ("ddp", "CenterPoint", "PaPE", "images"),
        pytest.param("fsdp", "CenterPoint", "PaPE", "images", marks=pytest.mark.slow),
        pytest.param("ddp", "CenterPoint", "PaPE", None, marks=pytest.mark.slow),
        pytest.param("fsdp", "CenterPoint", "PaPE", None, marks=pytest.mark.slow),
        pytest.param("ddp", "TransFusion", "LearnableMLP", None, marks=pytest.mark.slow),
        pytest.param("fsdp", "TransFusion", "LearnableMLP", None, marks=pytest.mark.slow),
    ],
)
def test_two_processes_train_as_one(parallel: str, head: str, encoding: Any, lacking: str | None) -> None:
    one = losses("ddp", head, encoding, lacking)
    for several in spawned(2, losses, parallel, head, encoding, lacking):
        assert several == pytest.approx(one, rel=1e-5)


@pytest.mark.slow
def test_a_process_without_points_does_not_wait_for_their_batch_norm() -> None:
    first, second = spawned(2, losses, "fsdp", "CenterPoint", "PaPE", "points")
    assert first == second
    assert first == pytest.approx(losses("ddp", "CenterPoint", "PaPE", "points"), rel=0.1)
