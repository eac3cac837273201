"""Runs of shipped configs as parts of an experiment."""

from ndformer.framework.engine.studies.experiment import Cell
from ndformer.studies.training import run_folder, trained


def test_a_run_is_made_once_with_the_cells_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = Cell("NoPE", 3, "small", tmp_path / "cell")
    options = ["train_cfg.max_epochs=1", "train_dataloader.num_workers=0", "val_dataloader.num_workers=0"]
    options += ["test_dataloader.num_workers=0", "train_dataloader.dataset.per_class=2"]
    first = trained(cell, "mnist_small", "NoPE", options=options)
    assert (first["seed"], first["encoding"], first["epochs"], first["sample"]) == (3, "NoPE", 1, True)
    before = (run_folder(cell) / "results.json").stat().st_mtime_ns
    assert trained(cell, "mnist_small", "NoPE", options=options) == first
    assert (run_folder(cell) / "results.json").stat().st_mtime_ns == before
