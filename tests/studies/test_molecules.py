"""The study of molecules on a tiny scale: all columns, losses by turning, references and controls."""

import numpy as np
import pytest
import torch

from ndformer.framework.data.regression import target_table
from ndformer.framework.engine.building import build_model
from ndformer.lab.experiment import Cell
from ndformer.modalities.molecules.datasets.qm9 import QM9
from ndformer.modalities.molecules.formats.molecule import to_rows
from ndformer.modalities.molecules.stand_ins.qm9 import grow, qm9
from ndformer.modalities.molecules.transforms.atoms import random_rotation
from ndformer.studies import find
from ndformer.studies.data import QM9 as DATA
from ndformer.studies.molecules.turning import (
    COMPOSITION,
    CONFIG,
    ENCODINGS,
    FEW,
    INVARIANT,
    LABELS,
    OPTIONS,
    PLACES,
    TARGETS,
    UNTRAINED,
    measure,
)
from ndformer.studies.training import training_run

SIZES = ["dataset.train=60", "dataset.val=10", "test_dataloader.dataset.per_class=40"]
TINY = [*SIZES, "train_cfg.max_epochs=1", "model.backbone.dim=16", "model.backbone.depth=2", "model.backbone.heads=2"]
TINY += ["train_dataloader.batch_tokens=100", "optimizer.lr=0.02"]  # some steps, after which positions matter
COLUMNS = set(find("molecules:sample").columns)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    folder = home / "data" / "samples" / "qm9"
    folder.mkdir(parents=True)
    qm9(folder, molecules=200)
    return home


def cell(home, row: str) -> Cell:
    return Cell(row, 0, "small", home / "work" / "molecules_sample_small" / "cell")


def test_settings_of_the_smaller_study(tmp_path):
    cfg = training_run(Cell("PaPERI", 0, "small", tmp_path / "a/b/c"), CONFIG, "PaPERI", DATA, [*OPTIONS, *FEW]).cfg
    assert cfg.ema is None
    assert cfg.train_dataloader.dataset.per_class == 12000
    assert [split.dataset.get("per_class") for split in (cfg.val_dataloader, cfg.test_dataloader)] == [2000, None]
    assert cfg.metrics[0].targets == cfg.test_dataloader.dataset.targets == TARGETS


@pytest.mark.slow
def test_turning_costs_nothing_with_an_invariant_encoding_and_something_with_others(home, monkeypatch):
    monkeypatch.chdir(home)
    invariant, absolute = (measure(cell(home, row), None, TINY) for row in ("PaPERI", "Sincos"))
    assert set(invariant) >= COLUMNS
    assert abs(invariant["upright lost"]) < 1e-4
    assert abs(absolute["upright lost"]) > 0.01
    before = sorted((home / "work" / "runs").iterdir())
    assert measure(cell(home, "PaPERI"), None, TINY) == invariant  # from the runs that are done
    assert sorted((home / "work" / "runs").iterdir()) == before


@pytest.mark.parametrize("row", ENCODINGS)
def test_every_encoding_answers_and_only_invariant_ones_are_called_so(home, row):
    """A model predicts all six targets; only the rows of the claim are unchanged if the molecule is turned."""
    run = training_run(cell(home, row), CONFIG, ENCODINGS[row], None, [*OPTIONS, *TINY])
    torch.manual_seed(0)
    model = build_model(run.cfg).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # away from zeros at initialization
            parameter += 0.1 * torch.randn_like(parameter)
        rows = torch.from_numpy(to_rows(*grow(np.random.default_rng(1))))
        turned = rows.clone()
        turned[:, 1:] = rows[:, 1:] @ torch.from_numpy(random_rotation(np.random.default_rng(0)).T).float()
        before, after = model([rows]), model([turned])
    assert before.shape == (1, 6)
    difference = float((before - after).abs().max())
    assert difference < 1e-5 if row in (*INVARIANT, "NoPE") else difference > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("row", [PLACES, LABELS])
def test_controls_train(home, row, monkeypatch, shuffled):
    monkeypatch.chdir(home)
    assert set(measure(cell(home, row), None, TINY)) >= COLUMNS


def test_references_are_an_untrained_and_a_linear_model(home, monkeypatch):
    monkeypatch.chdir(home)
    mean, linear = (measure(cell(home, row), None, TINY) for row in (UNTRAINED, COMPOSITION))
    assert set(mean) == set(linear) >= COLUMNS
    known = target_table(QM9(home / "data/samples/qm9", targets=TARGETS, train=60, val=10))
    chosen = QM9(home / "data/samples/qm9", "test", targets=TARGETS, train=60, val=10, per_class=40)
    mu = np.abs(chosen.molecules.targets[chosen.records, 0] - known.targets[:, 0].mean()).mean()
    assert mean["upright mu (D)"] == pytest.approx(mu, rel=1e-9)
    counts, energies = known.composition, target_table(chosen).targets[:, 5]
    assert counts is not None
    x = np.column_stack([np.ones(60), counts[:, [1, 6, 7, 8, 9]]]).astype(float)
    fit = np.linalg.lstsq(x, known.targets[:, 5], rcond=None)[0]
    compositions = target_table(chosen).composition
    assert compositions is not None
    y = np.column_stack([np.ones(40), compositions[:, [1, 6, 7, 8, 9]]])
    assert linear["upright U0 (meV)"] == pytest.approx(np.abs(y @ fit - energies).mean(), rel=1e-6)
    assert linear["upright"] < mean["upright"]


def test_random_targets_are_those_of_other_molecules(home):
    data = QM9(home / "data/samples/qm9", targets=["mu (D)"], train=60, val=10, transforms=[dict(type="PackAtoms")])
    true = target_table(data).targets[:, 0]
    data.shuffle_labels()
    shuffled = target_table(data)
    assert sorted(shuffled.targets[:, 0]) == sorted(true)
    assert (shuffled.targets[:, 0] != true).mean() > 0.8
    samples = [data[i]["data_sample"] for i in range(60)]
    assert [float(sample["targets"][0]) for sample in samples] == shuffled.targets[:, 0].tolist()
    assert shuffled.composition is not None
    assert shuffled.composition.sum(1).tolist() == [int(sample["composition"].sum()) for sample in samples]
