"""Compiled blocks under FSDP, whose exact weights have hooks of their own in bf16."""

from functools import partial
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from ndformer.framework.engine.training.parallel import Parallel, parallelize
from ndformer.framework.system import processes
from tests.framework.engine.training.test_parallel import batch, build, images, transformer
from tests.spawned import spawned


def losses(amp: torch.dtype | None, compiled: bool, depth: int = 4) -> tuple[list[float], int]:
    """Return the losses of three steps, and the number of graphs that dynamo has traced."""
    counter: Any = CompileCounter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", partial(torch.compile, backend=counter))
        head = dict(type="Classifier", classes=3, pool="mean")
        model = build(dict(image=dict(type="ImagePatches", patch=4)), transformer(dict(type="PaPE"), depth=depth), head)
        model.amp = amp
        running = parallelize(model, Parallel.from_config(dict(parallel="fsdp")), amp, compiled)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for step in range(3):
        with torch.autocast("cpu", amp, enabled=amp is not None):
            loss = model.total(running(**batch(images(step), "image"), mode="loss"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(processes.mean(loss.detach()).item())
    return found, counter.frame_count


@pytest.mark.slow
@pytest.mark.parametrize("amp", [None, torch.bfloat16])
def test_compiled_blocks_train_as_others_and_all_blocks_share_their_graphs(amp: torch.dtype | None) -> None:
    plain, _ = spawned(2, losses, amp, False)[0]
    compiled, graphs = spawned(2, losses, amp, True)[0]
    assert compiled == pytest.approx(plain, abs=1e-5 if amp is None else 1e-3)
    assert 1 <= graphs <= (1 if amp is None else 6)  # hooks of exact weights cut a block, and 4 blocks share the cuts
