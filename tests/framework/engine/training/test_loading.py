"""Bad samples and dying or hanging workers are named and counted, and never cause an endless loop."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.cli import program
from ndformer.cli.check import check_split
from ndformer.cli.shards import Packer
from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.mixture import Mixture, TurnBatches
from ndformer.framework.engine.config.schema import Loading
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.loading import build_loader, dropped_warning
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import DATASETS, METRICS
from tests.soak.tiny import SoakSquares, config

ROOT = Path(__file__).parents[4]

BAD = (3, 4, 10)


class Rotten(SoakSquares):
    """Some samples of every split cannot be read."""

    def read(self, record):
        if record in BAD:
            raise DataError(f"{record}.png is truncated")
        return super().read(record)

    def name(self, i):
        return f"{self.records[i]}.png"


class Faulty(Rotten):
    """Some samples of every split are read, and have a fault."""

    def read(self, record):
        return SoakSquares.read(self, record)

    def sample(self, epoch, i):
        sample = super().sample(epoch, i)
        if self.records[i] == BAD[0]:
            sample["inputs"]["image"] = torch.full((3, 8, 8), torch.nan)
        if self.records[i] == BAD[1]:
            sample["data_sample"]["label"] = 99
        return sample


class Hopeless(Dataset):
    def index(self, split):
        self.classes = ["a", "b"]
        return list(range(20)), np.arange(20) % 2

    def read(self, record):
        raise DataError(f"{record} is no image")


class Deadly(Rotten):
    """Reading sample 5 kills the process, or hangs."""

    stuck = False

    def read(self, record):
        if record == 5:
            if self.stuck:
                time.sleep(60)
            os.kill(os.getpid(), signal.SIGKILL)
        return SoakSquares.read(self, record)


class Stuck(Deadly):
    stuck = True


@pytest.fixture(scope="module", autouse=True)
def datasets():
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Rotten, Faulty, Hopeless, Deadly, Stuck):
            patch.setitem(DATASETS.module_dict, kind.__name__, kind)
        yield


def of(kind, **options):
    cfg = config(batch=8)
    cfg.train_cfg.max_epochs = 1
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.dataset.type = kind
        loader.update(options)
    return cfg


def test_a_bad_sample_ends_a_run_with_its_error(tmp_path):
    with pytest.raises(DataError, match=r"^\d+.png is truncated$"):
        train(of("Rotten"), tmp_path)


@pytest.mark.parametrize("split", ["val", "test"])
def test_transforms_that_refuse_samples_end_a_run_before_its_first_epoch(split, tmp_path, monkeypatch):
    def sample(self, epoch, i):
        if self.split == split:
            raise DataError(f"{self.name(i)}: too small for its crop")
        return Dataset.sample(self, epoch, i)

    monkeypatch.setattr(SoakSquares, "sample", sample)
    with pytest.raises(DataError, match="too small for its crop"):
        train(of("SoakSquares"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_skipped_samples_are_listed_in_the_results_and_not_measured(tmp_path, capsys):
    results = train(of("Rotten", skip_bad=True), tmp_path)
    assert set(results["bad"]["test"]) == {f"{i}.png" for i in BAD}
    assert results["bad"]["test"]["3.png"] == "3.png is truncated"
    assert "3 samples of test could not be used and were skipped:\n  3.png is truncated" in capsys.readouterr().out
    right = results["test"]["accuracy"] * (15 - len(BAD))
    assert right == pytest.approx(round(right))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_training_sample_is_replaced_by_the_next(workers):
    loader = build_loader(of("Rotten", skip_bad=True, num_workers=workers), "train")
    batches = list(loader)
    assert [len(batch["data_samples"]) for batch in batches] == [8] * 4
    used = [sample["index"] for batch in batches for sample in batch["data_samples"]]
    bad = {i for i, record in enumerate(loader.data.records) if record in BAD}
    assert not set(used) & bad
    assert "bad" not in batches[0]
    assert set(loader.bad) == {f"{i}.png" for i in BAD if i in loader.data.records}


def test_missing_loader_keys_have_the_defaults_of_the_schema():
    told, table = of("SoakSquares", num_workers=1), Loading(batch_size=8, dataset={})
    assert set(told.train_dataloader) == {"batch_size", "dataset", "num_workers"}
    loader = build_loader(told, "train")
    assert (loader.timeout, loader.data.skip_bad, loader.data.label_override) == (table.timeout, table.skip_bad, None)
    assert len(loader) == len(loader.data) // 8 * table.loops


def test_a_loader_of_bad_samples_ends():
    with pytest.raises(DataError, match=r"18 samples in a row cannot be read\. The first error:"):
        list(build_loader(of("Hopeless", skip_bad=True), "train"))
    with pytest.raises(DataError, match="no sample could be read"):
        measure([dict(type="Accuracy")], torch.nn.Identity(), build_loader(of("Hopeless", skip_bad=True), "test"))  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
@pytest.mark.parametrize("kind, says", [("Deadly", "worker died while it read 5.png"), ("Stuck", "were reading 5.png")])
def test_a_worker_that_dies_or_hangs_names_the_sample(kind, says):
    loader = build_loader(of(kind, num_workers=1, timeout=3.0), "test")
    begin = time.perf_counter()
    with pytest.raises(DataError, match=says):
        list(loader)
    assert time.perf_counter() - begin < 30


@pytest.mark.parametrize(
    "caught", [pytest.param(False, id="raised", marks=pytest.mark.slow), pytest.param(True, id="caught by other code")]
)
def test_a_worker_killed_while_a_picture_is_drawn_ends_the_run(tmp_path, monkeypatch, caught):
    """Issue 44.24: its error became a warning, and the run waited for the loader's timeout of 600 s."""

    def curves(*given):
        try:
            for worker in multiprocessing.active_children():
                worker.kill()
            time.sleep(2)  # torch's handler of the signal raises here
        except RuntimeError:
            if not caught:
                raise

    monkeypatch.setattr(report, "curves", curves)
    cfg = of("SoakSquares", num_workers=1, timeout=600.0)
    cfg.train_cfg.max_epochs = 2
    begin = time.perf_counter()
    with pytest.raises(DataError, match="a loader's worker died between two samples"):
        train(cfg, tmp_path)
    assert time.perf_counter() - begin < 30


@pytest.mark.parametrize("known", [True, False])
def test_a_program_names_the_sample_of_a_dead_worker(known, monkeypatch):
    """Issue 44.24: the error may also be raised outside of the loader's loop."""
    data = build_loader(of("Rotten", num_workers=1), "test").data
    data.worker_status = torch.tensor([[4321, 7]])

    def main():
        raise RuntimeError(f"DataLoader worker (pid {4321 if known else 1234}) is killed by signal: Killed. ")

    with pytest.raises(SystemExit, match="died while it read 7.png" if known else "died between two samples") as end:
        program.run(main)
    assert "NDFORMER_DEBUG" not in str(end.value)


def test_checking_a_dataset_lists_bad_samples():
    count, wrong = check_split(of("Rotten"), "test", workers=1)
    assert count == 15
    assert wrong == [f"{i}.png is truncated" for i in BAD]
    assert check_split(of("SoakSquares"), "test", workers=0) == (15, [])


def test_checking_a_dataset_names_samples_with_faults():
    _, wrong = check_split(of("Faulty"), "test", workers=0)
    assert wrong[0] == "3.png: its image contains values that are not finite"
    assert wrong[1].startswith("4.png")
    assert "99" in wrong[1]
    assert len(wrong) == 2


@pytest.mark.parametrize("case", ["check", "pack"])
def test_a_dead_worker_of_another_loader_is_no_fault_of_a_sample(case, tmp_path, monkeypatch):
    """Issue 44.16: the check listed the sample that was read when torch's signal handler raised."""

    def read(*given):
        raise RuntimeError("DataLoader worker (pid 1234) is killed by signal: Killed. ")

    monkeypatch.setattr(SoakSquares, "read", read)
    data: Any = build_loader(of("SoakSquares"), "test").data
    packer = Packer({"test": data}, {"test": {}}, tmp_path)
    run = dict(
        check=lambda: check_split(of("SoakSquares"), "test", workers=0), pack=lambda: packer._check_sample(data, 0)
    )[case]
    with pytest.raises((DataError, RuntimeError), match=r"^(a loader's worker died|DataLoader worker \(pid)"):
        run()


def test_several_passes_make_an_epoch():
    sampler, once = Batches(10, 4, True, seed=3, loops=3), Batches(10, 10, True, seed=3)
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        drawn = [one for batch in sampler for one in batch]
        assert len(drawn) == 4 * len(sampler) == 28
        expected = []
        for turn in range(3):
            once.set_epoch(3 * epoch + turn)  # every pass has another order and other random transforms
            expected += [one for batch in once for one in batch]
        assert drawn == expected[:28]


def test_skipped_batches_are_the_first_of_the_epoch():
    plain, resumed = Batches(20, 4, True, seed=2), Batches(20, 4, True, seed=2)
    resumed.skip = 3
    assert list(resumed) == list(plain)[3:]
    assert list(resumed) == list(plain)


def test_batches_of_a_mixture_are_shared_and_skipped_alike():
    part = dict(type="SoakSquares", data_root=".", transforms=[dict(type="PackImage")])
    data = Mixture(dict(a=part, b=part), split="train")
    whole = TurnBatches(data, 8, True, seed=1)
    halves = [TurnBatches(data, 8, True, seed=1, rank=r, processes=2) for r in (0, 1)]
    halves[0].skip = halves[1].skip = 2
    assert [a + b for a, b in zip(*halves)] == list(whole)[2:]


def test_a_batch_of_bad_samples_is_empty():
    assert collate([dict(bad=[("a", "why")])]) == dict(inputs={}, data_samples=[], bad=[("a", "why")])


@pytest.mark.slow
def test_a_program_with_workers_ends_at_once_and_silently():
    code = (
        "import time\n"
        "from ndformer.framework.engine.training.loading import build_loader\n"
        "from tests.soak.tiny import config, register\n"
        "register()\n"
        "cfg = config()\n"
        "cfg.train_dataloader.num_workers = 1\n"
        "loader = build_loader(cfg, 'train')\n"
        "loader.itself = loader\n"  # a reference cycle, which Python does not free before it exits
        "next(iter(loader))\n"
        "print(time.time())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stderr == ""
    assert time.time() - float(ran.stdout) < 20  # a worker lives 30 s after SIGTERM


def test_dropping_a_quarter_of_the_samples_is_a_warning():
    """108 samples in batches of 64 are one step per epoch, without 44 of them."""
    warning = dropped_warning(Batches(108, 64, shuffle=True))
    assert warning is not None
    assert "44 of 108 samples are left out of each epoch" in warning
    assert "batch_size=13 or less" in warning
    assert dropped_warning(Batches(1000, 64, shuffle=True)) is None
    assert dropped_warning(Batches(10, 64, shuffle=False)) is None


def test_restarted_workers_have_the_data_set_as_it_is():
    loader = build_loader(of("SoakSquares", num_workers=1), "test")
    labels = lambda: [sample["label"] for batch in loader for sample in batch["data_samples"]]
    before = labels()
    records = loader.data.records
    loader.data.records = [records[0]] * len(records)
    assert labels() == before
    loader.restart()
    assert labels() == [before[0]] * len(records)


def test_a_test_set_without_truth_has_no_values():
    class Nothing(Metric):
        main, better, unit = "error", "lower", ""

        def process(self, data_batch, data_samples):
            self.results += data_samples

        def compute_metrics(self, results):
            return {}

    class Repeating(torch.nn.Module):
        def val_step(self, batch):
            return batch["data_samples"]

    METRICS.register_module(module=Nothing, force=True)
    try:
        batches = [dict(inputs={}, data_samples=[SimpleNamespace(sample={}, finite=True)])]
        assert measure([dict(type="Nothing")], Repeating(), batches).values == {}  # pyright: ignore[reportArgumentType]
    finally:
        METRICS.module_dict.pop("Nothing")
