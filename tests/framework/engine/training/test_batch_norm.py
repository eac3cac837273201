"""Running statistics of BatchNorm are updated once a step."""


import torch
from torch import nn

from ndformer.framework.backbones.ptv3.layers import Norm
from ndformer.framework.engine.training.parallel import Parallel, find_blocks, parallelize
from tests.framework.engine.training.models import batch, build, images, transformer


def statistics(recompute: str) -> dict[str, torch.Tensor]:
    """Return the running statistics in the blocks after two steps."""
    backbone = transformer(dict(type="LearnableMLP", norm="batch"))
    head = dict(type="Classifier", classes=3)
    model = build(dict(image=dict(type="ImagePatches", patch=4)), backbone, head)
    mlp = find_blocks(model)[0].mlp
    assert isinstance(mlp, nn.Sequential)
    mlp.append(Norm(10))  # of as many channels as tokens; it counts its batches in an attribute
    running = parallelize(model, Parallel(recompute=recompute))
    for step in range(2):
        model.total(running(**batch(images(step), "image"), mode="loss")).backward()
    return {name: value for name, value in model.named_buffers() if ".blocks." in name}


def test_recomputing_updates_running_statistics_once() -> None:
    once, recomputed = statistics("none"), statistics("blocks")
    assert any(name.endswith("running_mean") for name in once)
    assert recomputed.keys() == once.keys()
    for name, value in once.items():
        assert torch.equal(recomputed[name], value), name
