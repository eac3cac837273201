"""Training runs of shipped configs in experiments."""

import threading

import pytest
import torch

from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import Where
from ndformer.lab import jobs
from ndformer.lab.experiment import Cell
from ndformer.studies.data import MNIST
from ndformer.studies.training import training_run

OPTIONS = ["train_cfg.max_epochs=1", "train_dataloader.dataset.per_class=2"]
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.mark.slow
def test_experiments_share_a_run_with_the_cells_seed(home, monkeypatch):
    monkeypatch.chdir(home)
    cell = Cell("NoPE", 3, "small", home / "work" / "pape_table1_small" / "NoPE_seed3")
    other = Cell("- b", 3, "small", home / "work" / "pape_table2_small" / "b_seed3")
    first = training_run(cell, "mnist_small", "NoPE", options=[*OPTIONS, *SMALL]).results
    assert (first["seed"], first["encoding"], first["epochs"], first["sample"]) == (3, "NoPE", 1, True)
    run = training_run(other, "mnist_small", "NoPE", options=[*OPTIONS, *SMALL])
    before = (run.folder / "results.json").stat().st_mtime_ns
    assert run.folder.parent == home / "work" / "runs"
    assert run.results == first
    assert (run.folder / "results.json").stat().st_mtime_ns == before
    learned, fresh = (model.state_dict()["head.linear.weight"] for model in (run.model(), run.model(untrained=True)))
    assert not torch.equal(learned, fresh)


def test_other_settings_have_other_folders(tmp_path):
    cell = Cell("NoPE", 0, "small", tmp_path / "work" / "table" / "cell")
    folders = [
        training_run(cell, "mnist_small", "NoPE").folder,
        training_run(cell, "mnist_small", "PaPE(m=50)").folder,
        training_run(cell, "mnist_small", "PaPE(m=50, init_radius='spread')").folder,
        training_run(cell, "mnist_small", "NoPE", control="labels").folder,
        training_run(cell, "mnist_small", "NoPE", options=["model.backbone.depth=2"]).folder,
        training_run(cell, "sign_digits", "NoPE").folder,
        training_run(Cell("NoPE", 1, "small", cell.folder), "mnist_small", "NoPE").folder,
    ]
    assert len(set(folders)) == len(folders)


def test_moving_the_data_keeps_the_folder(tmp_path):
    cells = [Cell("NoPE", 0, "small", tmp_path / "work" / "table" / "cell", tmp_path / place) for place in "ab"]
    first, second = (training_run(cell, "mnist_small", "NoPE", MNIST) for cell in cells)
    assert first.cfg.data_root != second.cfg.data_root
    assert first.folder == second.folder


@pytest.mark.slow
def test_a_second_process_waits_for_a_run_in_progress(tmp_path, monkeypatch):
    """flock works between two opened files of one process, too."""
    calls, begun = [], threading.Event()

    def train(cfg, folder, resume, **more):
        calls.append(folder)
        begun.set()
        threading.Event().wait(0.2)
        (folder / "results.json").write_text('{"seed": 0}')

    monkeypatch.setattr(jobs, "train", train)
    monkeypatch.setattr(jobs, "prepare_data", lambda cfg, sample: None)
    cell = Cell("NoPE", 0, "small", tmp_path / "work" / "table" / "cell")
    runs = [training_run(cell, "mnist_small", "NoPE") for _ in range(2)]
    first = threading.Thread(target=lambda: runs[0].results)
    first.start()
    begun.wait(10)
    assert runs[1].results == {"seed": 0}
    first.join()
    assert len(calls) == 1


def test_shuffling_permutes_the_tokens_of_a_sample_and_keeps_padding(shuffled):
    torch.manual_seed(0)
    encoding = build_encoding([dict(type="Shuffled"), dict(type="NoPE")], dim=4, heads=1, position_dims=2, depth=1)
    valid = torch.arange(30)[None] < torch.tensor([30, 12])[:, None]
    where = Where(torch.rand(2, 30, 2), valid=valid)
    x = torch.rand(2, 30, 4)
    permuted = encoding.embed(x, encoding.prepare(where))
    for row, count in enumerate((30, 12)):
        assert torch.equal(permuted[row, 0], x[row, 0])
        assert torch.equal(permuted[row, count:], x[row, count:])
        assert not torch.equal(permuted[row, :count], x[row, :count])
        assert torch.equal(permuted[row, :count].sort(0).values, x[row, :count].sort(0).values)
    encoding.eval()
    assert torch.equal(*(encoding.embed(x, encoding.prepare(where)) for _ in range(2)))


def test_shuffling_permutes_the_tokens_of_each_packed_sample(shuffled):
    torch.manual_seed(0)
    first = dict(type="Shuffled", class_tokens=0)
    encoding = build_encoding([first, dict(type="NoPE")], dim=4, heads=1, position_dims=2, depth=1)
    counts = [12, 7, 30]
    segment = torch.arange(3).repeat_interleave(torch.tensor(counts))[None]
    x = torch.rand(1, 49, 4)
    permuted = encoding.embed(x, encoding.prepare(Where(torch.rand(1, 49, 2), segment=segment)))
    for before, after in zip(x[0].split(counts), permuted[0].split(counts)):
        assert not torch.equal(before, after)
        assert {tuple(row) for row in before.tolist()} == {tuple(row) for row in after.tolist()}


def test_a_control_with_shuffled_positions_trains(home, monkeypatch, shuffled):
    monkeypatch.chdir(home)
    cell = Cell("PaPE, places shuffled", 0, "small", home / "work" / "table" / "cell")
    run = training_run(cell, "mnist_small", "PaPE(m=4)", options=[*OPTIONS, *SMALL], control="places")
    assert run.results["encoding"] == "Shuffled+PaPE"
