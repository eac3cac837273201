"""Running statistics of BatchNorm: updated once a step, and the same on all processes in a checkpoint."""

from pathlib import Path

import pytest
import torch
from torch import nn

from ndformer.framework.backbones.ptv3.layers import Norm
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.parallel import Parallel, find_blocks, parallelize
from ndformer.framework.engine.training.trainer import Trainer
from tests.framework.engine.training.models import batch, build, images, transformer
from tests.soak.tiny import config, differences
from tests.spawned import spawned


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


def resumed(folder: Path) -> list[str]:
    """Train with statistics of each process, undisturbed and resumed within the epoch; return what differs."""
    cfg = config(batch=4)
    cfg.model.head = dict(type="Classifier", classes=3, hidden=(9,))
    cfg.train_cfg.update(max_epochs=1, accumulate=1, checkpoint_every=None, parallel="fsdp", sync_batchnorm=False)
    train(cfg, folder / "undisturbed")
    end_step = Trainer.end_step

    def stop(self: Trainer) -> None:
        self.stop_requested = self.iter == 2
        end_step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "end_step", stop)
        with pytest.raises(SystemExit):
            train(cfg, folder / "resumed")
    train(cfg, folder / "resumed", resume=True)
    return differences(folder / "undisturbed", folder / "resumed")


def test_a_sharded_run_with_statistics_of_each_process_resumes_bit_for_bit(tmp_path: Path) -> None:
    assert spawned(2, resumed, tmp_path) == [[], []]
