"""Tasks of files and of generators; the stand-in, the config, and training on it."""

import json
from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.data.stand_ins import make_sample
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, STAND_INS
from ndformer.modalities.arc.generators import TASKS

CONFIG = Path(__file__).parents[3] / "configs" / "arc_task.py"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    home = tmp_path_factory.mktemp("arc") / "sample"
    make_sample("arc", home)
    return home


def drawn(split="train", **options):
    return DATASETS.create(dict(type="DrawnTasks", data_root="none", split=split, **options))


def test_splits_and_seeds_draw_different_pairs_and_the_same_again():
    name = dict(tasks=["boxes"], count=30, tested=10, holdout=0.2)
    train, val, test = (drawn(split, **name) for split in ("train", "val", "test"))
    assert [len(one) for one in (train, val, test)] == [24, 6, 10]
    grids = [{one[i]["arc"].tobytes() for i in range(len(one))} for one in (train, val, test)]
    assert len(set.union(*grids)) == sum(map(len, grids)) == 40
    assert np.array_equal(drawn("test", **name)[3]["arc"], test[3]["arc"])
    assert not np.array_equal(drawn("test", seed=1, **name)[3]["arc"], test[3]["arc"])
    assert len({train.identity(i) for i in range(len(train))}) == len(train)


def test_answers_follow_the_rule_and_the_default_is_all_tasks():
    every = drawn(count=2, tested=1, holdout=0.0)
    assert len(every) == 2 * len(TASKS)
    for i, name in enumerate(TASKS):
        pair = every[2 * i]
        assert np.array_equal(TASKS[name].rule(pair["arc"]), pair["output"])
        assert every.labels[2 * i] == i


def files(home, split="train", **options):
    return DATASETS.create(dict(type="ArcTasks", data_root=home, split=split, holdout=0.0, **options))


def test_a_set_on_disk_is_its_pairs_and_as_many_more_as_are_wanted(sample):
    assert len(files(sample)) == 4 * len(TASKS)
    assert len(files(sample, tasks=["60b61512"])) == 4
    more = files(sample, tasks=["60b61512"], drawn=20)
    assert len(more) == 24
    assert len(files(sample, "test", tasks=["60b61512"], drawn=20)) == 2 + 2
    for i in range(len(more)):
        assert np.array_equal(TASKS["boxes"].rule(more[i]["arc"]), more[i]["output"])


def test_missing_tasks_are_errors(sample, tmp_path):
    with pytest.raises(DataError, match="data/training is missing: put ARC's tasks, a file each, there"):
        files(tmp_path)
    with pytest.raises(DataError, match="has no task '60b6151', did you mean '60b61512'"):
        files(sample, tasks=["60b6151"])


def test_the_stand_in_has_something_to_do_in_each_grid(sample):
    made = DATASETS.create(dict(type="ArcTasks", data_root=sample, split="test"))
    scores = dict(STAND_INS.get("arc").baselines(None, made))
    assert scores["grids that stay as they are"] == 0
    assert 0.5 < scores["cells that stay as they are"] < 0.9


def test_the_recipe_trains_on_its_sample(sample, tmp_path):
    small = ["dataset.drawn=40", "train_cfg.max_epochs=1", "model.backbone.depth=1", f"data_root={str(sample)!r}"]
    train(load(CONFIG, small, sample=True), tmp_path / "run")
    found = json.loads((tmp_path / "run" / "results.json").read_text())
    assert {"solve_rate", "cell_accuracy"} == set(found["test"])
    assert found["test"]["cell_accuracy"] > 0.2
