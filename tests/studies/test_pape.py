"""Experiments of the PaPE paper."""

import pytest

from ndformer.framework.attention import build_encoding
from ndformer.framework.engine.config.shipped import paper_encoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab import runner
from ndformer.lab.experiment import Cell, DataSet, Experiment
from ndformer.studies import every, find
from ndformer.studies.pape import encodings, table1
from ndformer.studies.pape.ablation import SWITCHES, WITHOUT
from ndformer.studies.pape.decomposition import measure_layer, measure_terms
from ndformer.studies.pape.efficiency import parameters
from ndformer.studies.pape.encodings import SETS, SmallSet
from ndformer.studies.pape.extrapolation import SIZES
from ndformer.studies.pape.paper_scale import EVERY_SET, NAMES, VIT_S
from ndformer.studies.pape.published import TABLE1, TABLE5, TABLE6, TABLE7
from ndformer.studies.training import training_run


def words(experiment: Experiment, home) -> dict[str, str]:
    """What becomes of each claim where all cells are measured here."""
    seeds = range(experiment.scales["small"].seeds)
    for cell in runner.cells(experiment, "small", seeds, home):
        runner.measure(experiment, cell)
    results = runner.collect(experiment, "small", seeds, home)
    return {claim.text: claim.judge(results).word for claim in experiment.claims}


def test_every_table_and_figure_has_an_experiment():
    shown = {name for experiment in every().values() if experiment.paper == "pape" for name in experiment.shows}
    assert shown == {f"Table {i}" for i in range(1, 9)} | {f"Figure {i}" for i in range(1, 4)}


def test_printed_averages_are_those_of_the_printed_figures():
    for row, figures in TABLE1.items():
        if "Average" in figures:
            sets = [float(figure) for name, figure in figures.items() if name != "Average"]
            assert sum(sets) / len(sets) == pytest.approx(float(figures["Average"]), abs=0.051), row


def test_table_7_has_for_each_encoding_the_way_that_is_better_at_the_largest_size():
    for row, figures in TABLE7.items():
        assert figures["1024"] == max(TABLE5[row]["1024"], TABLE6[row]["1024"], key=float)
        assert figures["224"] == TABLE5[row]["224"] == TABLE6[row]["224"] == TABLE1[row]["ImageNet-1K"]


def test_each_ablation_takes_away_one_part():
    def weights(row: str) -> dict[str, tuple[int, ...]]:
        place = dict(dim=16, heads=2, position_dims=2, depth=1)
        layer = build_encoding(parse_encoding(SWITCHES[row]), **place).layer(0, 1)
        return {name: tuple(p.shape) for name, p in layer.named_parameters()}

    whole = weights("PaPE")
    assert set(whole) == {"wp", "wa", "wb"}
    assert weights("without distance") == {name: whole[name] for name in ("wp", "wb")}
    assert weights("without direction") == {name: whole[name] for name in ("wp", "wa")}
    assert weights("without context") == dict(wp=whole["wp"], a=(2, 50), b=(2, 50))
    assert weights("without activation") == whole
    assert weights("without Wp") == dict(wa=(2, 2, 16), wb=(2, 2, 16))
    assert all(len(parse_encoding(encoding)) == 3 for encoding in WITHOUT.values())  # type, m and one switch


def test_sizes_of_extrapolation_are_those_of_the_recipes_and_their_patches_divide_them(tmp_path):
    for name, sizes in SIZES.items():
        cfg = encodings.run(Cell("", 0, "small", tmp_path / "w" / "t" / "c"), name, "NoPE").cfg
        patch = cfg.model.modalities.image.patch
        test = cfg.test_dataloader.dataset.transforms
        assert sizes.train == next((t["size"] for t in test if "size" in t), 28)
        assert all(size % patch == 0 for size in (sizes.train, *sizes.larger))


def test_a_set_without_a_class_token_has_all_its_tokens_shuffled(tmp_path, shuffled):
    cell = Cell("", 0, "small", tmp_path / "w" / "t" / "c")
    parts = {name: encodings.run(cell, name, "PaPE", "places").cfg.model.backbone.encoding[0] for name in SETS}
    assert {name for name, part in parts.items() if part.get("class_tokens", 1) == 0} == {"bricks"}


def test_positional_parameters_are_those_of_wa_wb_and_wp():
    assert parameters("PaPE(m=8)") == 12 * 12 * 8 * (768 + 768 + 2)
    assert parameters("Sincos") == parameters("ALiBi") == 0


def test_what_the_paper_proves_holds_and_its_controls_fail(tmp_path):
    assert set(words(find("pape:equations"), tmp_path).values()) == {"supported"}


def test_shipped_configs_have_the_papers_hyperparameters(tmp_path):
    said = words(find("pape:table8"), tmp_path)
    assert {says for says, word in said.items() if word != "supported"} == {
        "the config of nuScenes has the paper's hyperparameters"
    }


def test_what_needs_gpus_names_configs_that_load(tmp_path):
    cell = Cell("PaPE", 0, "paper", tmp_path / "w" / "t" / "c")
    assert training_run(cell, "imagenet1k_pape", "PaPE(m=2)", options=VIT_S).cfg.model.backbone.dim == 384
    for config, metric in EVERY_SET.values():
        run = training_run(cell, f"{config}_pape", paper_encoding(config, NAMES["PaPE-RI"]))
        assert run.cfg.model.backbone.encoding["type"] == "PaPERI"
        assert metric in ("accuracy", "mAP", "mIoU")


def test_a_row_with_a_class_token_nowhere_have_it_so_on_every_set(tmp_path, monkeypatch):
    found = {}

    def run(cell, name, encoding, control, options):
        found[name] = training_run(cell, SETS[name].config, encoding, options=options).cfg.model.modalities
        return dict(test=dict(accuracy=0.5))

    monkeypatch.setattr(encodings, "run", run)
    values = table1.measure(Cell(encodings.NOWHERE, 0, "small", tmp_path / "w" / "t" / "c"))
    assert values == dict.fromkeys((*SETS, "average"), 50)
    for name, modalities in found.items():
        assert [one.get("class_at") for one in modalities.values()] == ["nowhere" if SETS[name].adapter else None]


def test_a_trained_model_is_taken_apart(tmp_path, monkeypatch):
    """A tiny one on generated digits: all of the columns, and a picture beside the cell."""
    monkeypatch.chdir(tmp_path)
    tiny = ["train_cfg.max_epochs=1", "model.backbone.dim=16", "test_dataloader.dataset.per_class=1"]
    tiny += ["train_dataloader.dataset.per_class=2", "val_dataloader.dataset.per_class=2"]
    for name in SIZES:
        monkeypatch.setitem(SETS, name, SmallSet("mnist_small", DataSet("none", "")))
    monkeypatch.setattr(
        encodings,
        "training_run",
        lambda cell, config, encoding, data, options, control: training_run(cell, config, encoding, None, tiny),
    )
    cell = Cell("digits", 0, "small", tmp_path / "work" / "pape_figure2_small" / "digits_seed0")
    values = measure_terms(cell)
    assert set(find("pape:figure2").columns) == set(values)
    assert 0 < values["near"] < 1
    assert values["rest"] < 1e-3
    assert (cell.folder / "maps.png").stat().st_size > 10000
    layer = measure_layer(Cell("layer 2", 0, "small", cell.folder))
    assert set(find("pape:figure3").columns) < set(layer)
    heads = [layer[f"digits head {head}"] for head in range(1, 5)]
    assert layer["digits z"] == pytest.approx(sum(heads) / 4)
