"""Experiments of the PaPE paper."""

import pytest

from ndformer.framework.attention import build_encoding
from ndformer.framework.engine.config.shipped import paper_encoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab import runner
from ndformer.lab.experiment import Cell, DataSet, Experiment
from ndformer.studies import find, grid
from ndformer.studies.grid import TrainingSet
from ndformer.studies.pape import decomposition, same_treatment, tables
from ndformer.studies.pape.efficiency import parameters
from ndformer.studies.pape.encodings import EVERY, NOWHERE, PLACES, SETS, WITHOUT, train_row
from ndformer.studies.pape.paper_scale import EVERY_SET, NAMES, VIT_S
from ndformer.studies.pape.published import TABLE1, TABLE5, TABLE6, TABLE7
from ndformer.studies.pape.same_treatment import FASHION, FASHION_SIZES, SMALL, SMALL_SIZES
from ndformer.studies.training import training_run


def words(experiment: Experiment, home) -> dict[str, str]:
    """Measure all cells, and return the verdict of each claim."""
    seeds = range(experiment.scales["small"].seeds)
    for cell in runner.cells(experiment, "small", seeds, home):
        runner.measure(experiment, cell)
    results = runner.collect(experiment, "small", seeds, home)
    return {claim.text: claim.judge(results).word for claim in experiment.claims}


@pytest.fixture
def cell(tmp_path):
    return lambda row: Cell(row, 0, "small", tmp_path / "work" / "table" / "cell")


def test_printed_averages_and_best_scalings_agree_with_the_printed_tables():
    for row, figures in TABLE1.items():
        if "Average" in figures:
            sets = [float(figure) for name, figure in figures.items() if name != "Average"]
            assert sum(sets) / len(sets) == pytest.approx(float(figures["Average"]), abs=0.051), row
    for row, figures in TABLE7.items():
        assert figures["1024"] == max(TABLE5[row]["1024"], TABLE6[row]["1024"], key=float)
        assert figures["224"] == TABLE5[row]["224"] == TABLE6[row]["224"] == TABLE1[row]["ImageNet-1K"]


def test_each_ablation_removes_one_part():
    def weights(row: str) -> dict[str, tuple[int, ...]]:
        layer = build_encoding(parse_encoding(EVERY[row]), dim=16, heads=2, position_dims=2, depth=1).layer(0, 1)
        return {name: tuple(p.shape) for name, p in layer.named_parameters()}

    full = weights("PaPE")
    assert set(full) == {"wp", "wa", "wb"}
    assert weights("without distance") == {name: full[name] for name in ("wp", "wb")}
    assert weights("without direction") == {name: full[name] for name in ("wp", "wa")}
    assert weights("without context") == dict(wp=full["wp"], a=(2, 50), b=(2, 50))
    assert weights("without activation") == full
    assert weights("without Wp") == dict(wa=(2, 2, 16), wb=(2, 2, 16))
    assert all(len(parse_encoding(encoding)) == 3 for encoding in WITHOUT.values())  # type, m and one switch


def test_patches_divide_the_sizes_of_extrapolation(cell):
    sets = {"Fashion-MNIST": FASHION, **SMALL}
    for name, sizes in {**FASHION_SIZES, **SMALL_SIZES}.items():
        cfg = same_treatment.train_row(cell("NoPE"), sets[name]).cfg
        patch = cfg.model.modalities.image.patch
        test = cfg.test_dataloader.dataset.transforms
        assert sizes.train == next((t["size"] for t in test if "size" in t), 28)
        assert all(size % patch == 0 for size in (sizes.train, *sizes.larger))


def test_sets_without_a_class_token_have_all_tokens_shuffled(cell, shuffled):
    parts = {name: train_row(cell(PLACES), on).cfg.model.backbone.encoding[0] for name, on in SETS.items()}
    assert {name for name, part in parts.items() if part.get("class_tokens", 1) == 0} == {"bricks"}


def test_positional_parameters_are_wa_wb_and_wp():
    assert parameters("PaPE(m=8)") == 12 * 12 * 8 * (768 + 768 + 2)
    assert parameters("Sincos") == parameters("ALiBi") == 0


def test_proofs_of_the_paper_are_supported(tmp_path):
    assert set(words(find("pape:equations"), tmp_path).values()) == {"supported"}


def test_shipped_configs_have_the_papers_hyperparameters(tmp_path):
    verdicts = words(find("pape:table8"), tmp_path)
    assert {text for text, word in verdicts.items() if word != "supported"} == {
        "the config of nuScenes has the paper's hyperparameters"
    }


def test_configs_of_the_paper_scale_load(cell):
    assert training_run(cell("PaPE"), "imagenet1k_pape", "PaPE(m=2)", options=VIT_S).cfg.model.backbone.dim == 512
    for config, metric in EVERY_SET.values():
        run = training_run(cell("PaPE"), f"{config}_pape", paper_encoding(config, NAMES["PaPE-RI"]))
        assert run.cfg.model.backbone.encoding["type"] == "PaPERI"
        assert metric in ("accuracy", "mAP", "mIoU")


def test_class_tokens_of_a_row_are_nowhere_on_every_set(cell, monkeypatch):
    runs = []
    monkeypatch.setattr(grid, "training_run", lambda *args: runs.append(training_run(*args)) or runs[-1])
    monkeypatch.setattr(training_run.__globals__["Run"], "results", dict(test=dict(accuracy=0.5)))
    assert tables.EXPERIMENTS[0].measure(cell(NOWHERE)) == dict.fromkeys((*SETS, "average"), 50)
    for on, run in zip(SETS.values(), runs, strict=True):
        places = [adapter.get("class_at") for adapter in run.cfg.model.modalities.values()]
        assert places == ["nowhere" if on.adapter else None]


@pytest.mark.slow
def test_attention_of_a_trained_model_is_split_into_terms(tmp_path, monkeypatch):
    """A tiny model on generated digits: all columns, and a picture beside the cell."""
    monkeypatch.chdir(tmp_path)
    tiny = ["train_cfg.max_epochs=1", "model.backbone.dim=16", "test_dataloader.dataset.per_class=1"]
    tiny += ["train_dataloader.dataset.per_class=2", "val_dataloader.dataset.per_class=2"]
    for name in decomposition.TWO:
        monkeypatch.setitem(decomposition.TWO, name, TrainingSet("mnist_small", DataSet("none", ""), "image"))
    monkeypatch.setattr(
        grid,
        "training_run",
        lambda cell, config, encoding, data, options, control: training_run(cell, config, encoding, None, tiny),
    )
    cell = Cell("digits", 0, "small", tmp_path / "work" / "pape_figure2_small" / "digits_seed0")
    values = decomposition.measure_terms(cell)
    assert set(find("pape:figure2").columns) == set(values)
    assert 0 < values["near"] < 1
    assert values["rest"] < 1e-3
    assert (cell.folder / "maps.png").stat().st_size > 10000
    layer = decomposition.measure_layer(Cell("layer 2", 0, "small", cell.folder))
    assert set(find("pape:figure3").columns) < set(layer)
    assert layer["digits z"] == pytest.approx(sum(layer[f"digits head {head}"] for head in range(1, 5)) / 4)
