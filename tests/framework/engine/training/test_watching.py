"""Rates of an epoch, recorded steps, and the watchdog that ends a training that hangs."""

import contextlib
import gzip
import json
import os
import signal
import time

import numpy as np
import pytest
import torch
from mmengine.registry import HOOKS
from torch import nn

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import watchdog
from ndformer.framework.engine.training.throughput import Throughput, attention_flops, count_flops, parse_steps
from ndformer.framework.engine.training.watchdog import Report, lagging, summary
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.system import opencv, processes
from tests.soak import ranks, tiny
from tests.spawned import spawned

Hook = opencv.import_module("mmengine.hooks").Hook  # imports modules of torch that are deprecated

BATCH = 4  # samples of a process


def scalars(folder):
    return [json.loads(line) for line in (folder / "vis_data" / "scalars.json").read_text().splitlines()]


def test_an_epoch_has_its_rates_in_log_and_scalars_and_results_stay(tmp_path):
    results = train(tiny.config(train_cfg=dict(max_epochs=2)), tmp_path)
    assert not {"tokens_per_second", "memory_gib"} & set(results)
    for row in scalars(tmp_path):
        assert row["tokens_per_second"] == pytest.approx(4 * row["samples_per_second"])  # 2 x 2 patches
        assert row["flops_per_second"] > 1000 * row["tokens_per_second"]
        assert 0 < row["loader_wait"] < 1
        assert 0.05 < row["memory_gib"] < 100
    lines = [
        line for line in (tmp_path / "train.log").read_text().splitlines() if "loss" in line and "step" not in line
    ]
    assert len(lines) == 2
    assert all(" tokens/s  " in line and "FLOP/s  " in line and " GiB  accuracy" in line for line in lines)


def test_tokens_are_counted_without_padding_and_prefixes_and_in_training_alone():
    model = build_model(tiny.config())
    throughput = Throughput(model)
    model.tokens(torch.rand(5, 3, 8, 8))
    assert int(throughput.tokens) == 20
    model.eval()
    model.tokens(torch.rand(5, 3, 8, 8))
    assert int(throughput.tokens) == 20


@TRANSFORMS.register_module(force=True)
class PackTwo:
    """Packs an image as two modalities; the second one is missing on rank 1 from the second batch on."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, sample, rng):
        self.count += 1
        image = torch.from_numpy(np.asarray(sample["image"])).permute(2, 0, 1) / 255
        lacks = processes.rank() == 1 and self.count > BATCH
        inputs = dict(image=image) if lacks else dict(image=image, second=image)
        return dict(inputs=inputs, data_sample=dict(label=sample["label"], path=sample["path"]))


def train_two_modalities(folder):
    cfg = tiny.config(BATCH)
    names = dict(image=4, second=8)
    cfg.model.modalities = {n: dict(type="ImagePatches", patch=patch, class_token=False) for n, patch in names.items()}
    cfg.model.head.pool, cfg.model.mix = "mean", None
    for split in ("train", "val", "test"):
        cfg[f"{split}_dataloader"].dataset.transforms = [dict(type="PackTwo")]
    cfg.train_cfg.update(max_epochs=1, accumulate=1, parallel="fsdp", hang_after=2.0)  # it once hung
    train(cfg, folder)


def test_rates_are_sums_over_processes_whose_batches_have_other_modalities(tmp_path):
    tiny.register()
    spawned(2, train_two_modalities, tmp_path)
    (row,) = scalars(tmp_path)
    tokens = 5 * BATCH + (4 * 5 + 3 * 4) * BATCH  # 4 and 1 patches, in four steps of two processes
    assert row["tokens_per_second"] == pytest.approx(tokens / (8 * BATCH) * row["samples_per_second"])
    assert row["flops_per_second"] > 1000 * row["tokens_per_second"]


@pytest.mark.parametrize("encoding", ["NoPE", "PaPE"])
def test_flops_of_a_forward_pass_are_those_of_its_layers_and_of_attention(encoding):
    cfg = tiny.config()
    cfg.model.backbone.encoding = dict(type=encoding)
    model = build_model(cfg)
    inputs, state = dict(image=torch.rand(2, 3, 8, 8)), torch.get_rng_state()
    measured = 2 * count_flops(model, inputs)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    blocks, head = (
        sum(2 * m.weight.numel() for m in part.modules() if isinstance(m, nn.Linear))
        for part in (model.backbone, model.head)
    )
    patches = 2 * 3 * 4 * 4 * 16
    layers = 2 * (4 * patches + 5 * blocks + head)  # four patches and a class token
    plain = layers + attention_flops(*[torch.empty(2, 2, 5, 8)] * 3)
    assert measured == plain if encoding == "NoPE" else plain < measured < 2 * plain
    spans = torch.tensor([[[0, 0, 2, 2], [2, 2, 4, 4]]])  # two samples of two tokens in a row
    packed = attention_flops(*[torch.empty(2, 2, 4, 8)] * 3, None, None, None, spans)
    assert packed == attention_flops(*[torch.empty(4, 2, 2, 8)] * 3)


@pytest.mark.slow
def test_recorded_steps_leave_a_trace_and_a_table_and_change_no_number(tmp_path, capsys):
    cfg = tiny.config()
    cfg.train_cfg.max_epochs = 1
    train(cfg, tmp_path / "plain")
    train(cfg, tmp_path / "recorded", profile=(3, 5))
    assert not tiny.differences(tmp_path / "plain", tmp_path / "recorded")
    with gzip.open(tmp_path / "recorded" / "profile" / "rank0.json.gz") as file:
        events = [event["name"] for event in json.load(file)["traceEvents"]]
    assert events.count("aten::_softmax") + events.count("aten::scaled_dot_product_attention") >= 3
    out = capsys.readouterr().out
    assert "Self CPU %" in out
    assert "steps 3 to 5: " in out
    with pytest.raises(DataError, match="profile: expected steps up to 8, the last of the run, got 9"):
        train(cfg, tmp_path / "shorter", profile=(3, 9))


@pytest.mark.parametrize("text", ["", "10", "0:3", "20:10", "a:b", "-1:5", "1:2:3", "9" * 10 + ":" + "9" * 10])
def test_wrong_ranges_of_steps_raise_an_error(text):
    assert parse_steps("10:20") == (10, 20)
    with pytest.raises(DataError, match="such as 10:20, got"):
        parse_steps(text)


def fast(monkeypatch, ticks):
    """Return a config whose runs end after `ticks` times 0.02 s without progress."""
    monkeypatch.setattr(watchdog, "TICK", 0.02)
    cfg = ranks.settings(4, max_epochs=2, hang_after=ticks / 60)
    cfg.custom_hooks = [dict(type="Hang")]
    return cfg


@HOOKS.register_module(force=True)
class Hang(Hook):
    """Hangs at step 3 in the last rank."""

    hangs = True

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if runner.iter == 2 and runner.rank == runner.world_size - 1 and self.hangs:
            time.sleep(600)


@pytest.mark.slow
def test_a_process_that_hangs_prints_its_stacks_and_ends(tmp_path, monkeypatch):
    pid, pipe = tiny.fork(fast(monkeypatch, 200), tmp_path / "run")
    assert tiny.ended(pid) == 1
    os.close(pipe)
    for log in (tmp_path / "run.log", tmp_path / "run" / "train.log"):
        text = log.read_text()
        assert "watchdog: no progress for 3.33333 minutes; rank 0: 2 steps finished\nMainThread:\n" in text
        assert f"{__file__}:" in text.partition("MainThread")[2].splitlines()[1]
        assert "in before_train_iter" in text


@pytest.mark.slow
def test_the_time_for_which_a_process_is_stopped_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(Hang, "hangs", False)
    pid, pipe = tiny.fork(fast(monkeypatch, 200), tmp_path / "run")
    os.read(pipe, 1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(pid, signal.SIGCONT)
    assert tiny.ended(pid) == 0
    os.close(pipe)


@pytest.mark.slow
def test_of_two_processes_the_one_that_hangs_is_named_by_rank_0(tmp_path, monkeypatch):
    cfg = fast(monkeypatch, 300)
    pids = tiny.spawn_ranks(2, lambda rank: ranks.record(cfg, tmp_path / "run", rank, 0), tmp_path)
    assert [tiny.ended(pid) for pid in pids] == [1, 1]
    first, second = ((tmp_path / f"{rank}.txt").read_text() for rank in (0, 1))
    assert "watchdog: the run hangs; rank 1 lags\n" in first
    assert "  rank 0: 2 steps finished, step 3 begun, waits for other processes or the device\n" in first
    assert "  rank 1: 2 steps finished\nrank 1:\nMainThread:\n" in first
    assert "in all_gather" in first
    assert "in before_train_iter" in second
    assert "rank 1 lags" in (tmp_path / "run" / "train.log").read_text()


def test_the_rank_that_lags_is_silent_or_behind_or_the_one_that_does_not_wait():
    waits, works, behind = Report(7, True, "w"), Report(7, False, "x"), Report(6, True, "y")
    assert lagging([waits, works, waits]) == [1]
    assert lagging([waits, works, behind]) == [2]
    assert lagging([waits, None, behind]) == [1]
    assert lagging([waits, waits]) == []
    assert "rank 1: no answer" in summary([waits, None])


def test_without_a_limit_and_after_a_run_no_thread_watches():
    with watchdog.Watchdog(None) as idle, watchdog.Watchdog() as active, contextlib.suppress(ValueError):
        assert [len(idle.threads), len(active.threads)] == [0, 1]
        raise ValueError
    assert not any(thread.is_alive() for thread in active.threads)
