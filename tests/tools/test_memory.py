"""tools/memory.py: calculated memory of a training process beside a measured one."""

import pytest
import torch

from ndformer.cli import memory
from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel
from ndformer.framework.errors import ConfigError
from tests.programs import CONFIGS, NO_WORKERS, printed
from tools import memory as program


@pytest.mark.parametrize("name", ["mnist_small", pytest.param("modelnet40_plain_pape", marks=pytest.mark.slow)])
def test_calculated_memory_is_the_measured_one(name):
    options = [*NO_WORKERS, "train_dataloader.batch_size=12", "ema.decay=0.9"]
    cfg = load(CONFIGS / f"{name}.py", options, sample=True)
    prepare_data(cfg, sample=True)
    cfg, model, loader = memory.prepare(cfg)
    calculated = memory.calculate(cfg, model, loader, 1, Parallel())
    measured = memory.measure(cfg, model, loader)
    assert calculated.pop("activations") == pytest.approx(measured.pop("activations"), rel=0.15)
    assert calculated == {kind: measured[kind] for kind in calculated}
    assert calculated["optimizer"] > 1.9 * calculated["parameters"] > 0


def test_shards_are_a_share_of_all_but_the_activations(capsys):
    words = ["mnist_small", "--sample", "--processes", "4", "--cfg-options", "train_dataloader.num_workers=0"]
    rows = {}
    for parallel in ("ddp", "fsdp"):
        text = printed(capsys, program.main, *words, "--parallel", parallel)
        numbers = [line.split() for line in text.splitlines()[-7:]]
        rows[parallel] = {kind: (float(several), float(single)) for kind, several, single in numbers}
    for kind in ("parameters", "gradients", "optimizer"):
        assert rows["ddp"][kind][0] == rows["ddp"][kind][1]
        assert rows["fsdp"][kind][0] == pytest.approx(rows["fsdp"][kind][1] / 4, abs=0.1)
    assert rows["ddp"]["communication"][0] == rows["ddp"]["gradients"][0]
    assert rows["fsdp"]["activations"][0] == rows["fsdp"]["activations"][1]


def test_recomputed_blocks_need_their_inputs_and_the_largest_of_them():
    saved = {}
    for recompute in ("none", "blocks"):
        options = [*NO_WORKERS, "train_dataloader.batch_size=12", f"train_cfg.recompute='{recompute}'"]
        cfg = load(CONFIGS / "mnist_small.py", options, sample=True)
        prepare_data(cfg, sample=True)
        cfg, model, loader = memory.prepare(cfg)
        saved[recompute] = memory.calculate(cfg, model, loader, 1, Parallel())["activations"]
        assert saved[recompute] == pytest.approx(memory.measure(cfg, model, loader)["activations"], rel=0.15)
    depth = cfg.model.backbone.depth
    assert saved["none"] / depth < saved["blocks"] < saved["none"] / depth * 2


def test_the_calculator_takes_parallel_from_the_config(capsys):
    words = ["mnist_small", "--sample", "--processes", "4", "--cfg-options", *NO_WORKERS]
    parallel = "train_cfg.parallel=dict(type='fsdp',replicate=2,offload=True)"
    text = printed(capsys, program.main, *words, parallel)
    assert "fsdp, 4 processes" in text
    assert text.endswith("offload=True: parameters, gradients and optimizer are in CPU memory\n")
    several, single = next(map(float, line.split()[1:]) for line in text.splitlines() if line.startswith("optimizer"))
    assert several == pytest.approx(single / 2, abs=0.1)  # two groups of two shards
    with pytest.raises(ConfigError, match="--processes: expected at least 1, got 0"):
        program.main([*words[:2], "--processes", "0"])


def test_batches_by_tokens_have_the_memory_of_their_samples():
    """The number of tokens was ignored, and 32 molecules were counted."""
    sizes = []
    for tokens in (300, 3000):
        cfg = load(CONFIGS / "qm9_small.py", [f"train_dataloader.batch_tokens={tokens}"], sample=True)
        prepare_data(cfg, True)
        parts = memory.prepare(cfg)
        calculated = memory.calculate(*parts, 1, Parallel())["activations"]
        assert calculated == pytest.approx(memory.measure(*parts)["activations"], rel=0.2)
        sizes.append(calculated)
    assert sizes[1] > 7 * sizes[0]


@pytest.mark.parametrize("name", ["SGD", "Adafactor", "Adagrad"])
def test_states_of_optimizers_that_read_numbers_or_begin_with_states(name):
    cfg = load(CONFIGS / "mnist_small.py", [f"optimizer=dict(_delete_=True, type='{name}', lr=0.001)"], sample=True)
    model = build_model(cfg, "cpu")
    optimizer = build_optimizer(model, cfg.optimizer)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.numel() else None
    optimizer.step()
    states = [tensor.nbytes for state in optimizer.state.values() for tensor in state.values()]
    assert sum(tensor.nbytes for tensor in memory._optimizer_states(cfg, model)) == sum(states)
