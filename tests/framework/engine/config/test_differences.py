"""Whether a run may go on with another number of processes, and which configs give the same results."""

import pytest

from ndformer.framework.engine.config.differences import check_resumable, settings_digest
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.framework.system import processes
from tests.framework.engine.conftest import CIFAR

BATCH = "train_dataloader.batch_size"


def test_only_batches_of_a_number_of_samples_are_the_same_on_other_processes(monkeypatch, capsys):
    """Batches of `batch_tokens` fill the budget of each process, so they depend on how many there are."""
    state = dict(settings=load(CIFAR, [f"{BATCH}=8"]).to_dict(), epoch=1, processes=1)
    monkeypatch.setattr(processes, "count", lambda: 4)
    cfg = load(CIFAR, [f"{BATCH}=2"])
    check_resumable(cfg, state, False)
    assert "1 processes with batches of 8 are now 4 with 2: the same total batch" in capsys.readouterr().out
    for settings in (state["settings"], cfg):
        settings["train_dataloader"]["batch_tokens"] = 100
    with pytest.raises(DataError, match=r"processes: was 1, is 4"):
        check_resumable(cfg, state, False)


def test_settings_have_one_digest_unless_results_differ():
    digest = lambda *options: settings_digest(load(CIFAR, options).to_dict())
    plain = digest()
    assert digest("data_root='elsewhere'", "train_dataloader.num_workers=7", "work_dir='x'") == plain
    changed = ["seed=9", "optimizer.lr=3e-4", "model.backbone.depth=2", "train_dataloader.dataset.per_class=5"]
    assert len({plain, *map(digest, changed)}) == 5
