"""Config files inherit by mmengine's rules, and are plain Python."""

import math
import warnings

import mmengine.config
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndformer.framework.engine.config.inherit import read
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import format_config
from tests.framework.engine.conftest import CIFAR, refusal
from tests.programs import ROOT

FILES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def nested(leaves):
    inside = st.dictionaries(st.sampled_from("abc"), leaves, max_size=3)
    return inside | inside.map(lambda d: d | {"_delete_": True}) | st.lists(leaves, max_size=2)


TREES = st.dictionaries(st.sampled_from("abcd"), st.recursive(st.integers(0, 3), nested, max_leaves=6), max_size=4)


def without_marks(value):
    if isinstance(value, dict):
        return {k: without_marks(v) for k, v in value.items() if k != "_delete_"}
    return [without_marks(v) for v in value] if isinstance(value, list) else value


def as_mmengine_reads(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files open
        try:
            return mmengine.config.Config.fromfile(path).to_dict()
        except TypeError:  # a dict over what is none
            return None


@settings(FILES, max_examples=60)
@given(TREES, TREES, TREES)
def test_files_merge_as_in_mmengine(write, low, middle, high):
    write(format_config(low), "low.py")
    write("_base_ = ['low.py']\n" + format_config(middle), "middle.py")
    path = write("_base_ = 'middle.py'\n" + format_config(high), "high.py")
    theirs = as_mmengine_reads(path)
    if theirs is None:
        assert "cannot merge" in refusal(read, path)
    else:
        assert without_marks(read(path)) == without_marks(theirs)


def test_a_dict_takes_the_place_of_none():
    assert load(CIFAR, ["model.mix=dict(type='ImageMix', mixup=0.8)"]).model.mix.mixup == 0.8


def test_values_of_bases_are_reached_both_ways(write):
    write("model = dict(backbone=dict(depth=5))\ndata_root = 'here'", "base.py")
    path = write(
        "_base_ = ['base.py']\nseed = {{_base_.model.backbone.depth}}\n"
        "train_cfg = dict(at=[{{ _base_.data_root }}], twice=2 * _base_.model.backbone.depth)"
    )
    found = read(path)
    assert found["seed"] == 5
    assert found["train_cfg"] == dict(at=["here"], twice=10)
    assert found == as_mmengine_reads(path)


def test_imports_give_numbers_not_texts(write):
    path = write(
        "import math\nfrom os.path import join\nfrom math import pi as half_turn\n"
        "seed = math.floor(math.pi)\ndata_root = join('a', 'b')\noptimizer = dict(lr=half_turn)\n"
        "def _twice(x):\n    return 2 * x\nclass Own: pass\nwork_dir = str(_twice(seed))\n_own = 3"
    )
    assert read(path) == dict(seed=3, data_root="a/b", optimizer=dict(lr=math.pi), work_dir="6")


def test_an_imported_setting_is_a_setting(write, tmp_path, monkeypatch):
    write("optimizer = dict(type='SGD', lr=0.1)\nother = 1", "of_a_config_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert read(write("from of_a_config_test import optimizer, other")) == dict(optimizer=dict(type="SGD", lr=0.1))


@pytest.mark.parametrize(
    "text, words",
    [
        ("model = dict(", "x.py, line 1: '(' was never closed"),
        ("seed = 1\nmodel = dict(a=b)", "x.py, line 2: NameError: name 'b' is not defined"),
        ("import nowhere", "x.py, line 1: ModuleNotFoundError: No module named 'nowhere'"),
        ("seed = 1\nreturn", "x.py, line 2: SyntaxError"),
        ("from mmengine.config import read_base\nwith read_base():\n    pass", "instead of read_base() write _base_"),
        ("_base_ = ['a' + 'b']", "line 1: expected one assignment _base_ = ['FILE.py']"),
        ("_base_: list = ['a.py']", "line 1: expected one assignment _base_ = ['FILE.py']"),
        ("_base_ = []\n_base_ = []", "expected one assignment _base_ = ['FILE.py']"),
        ("_base_ = ['base.pz', 1]", "expected one assignment _base_ = ['FILE.py']"),
        ("_base_ = ['bsae.py']", "x.py: its base {}/bsae.py does not exist, did you mean 'base.py'?"),
        ("_base_ = ['x.py']", "_base_: expected no cycle, got {0}/x.py -> {0}/x.py"),
        ("_base_ = ['base.py', 'other.py']", "its bases base.py and other.py both set 'seed'"),
        (
            "_base_ = 'base.py'\nseed = {{_base_.modle.depth}}",
            "AttributeError: the base has no 'modle', did you mean 'mo",
        ),
        ("_base_ = 'base.py'\nseed = dict(a=1)", "x.py: seed: a dict cannot merge with 1"),
        (
            "import torch\noptimizer = dict(type=torch.optim.SGD)",
            "optimizer.type: expected text, a number, a list or a dict, got <class 'torch.optim.sgd.SGD'>",
        ),
        ("model = dict(act=lambda x: x)", "model.act: expected text, a number, a list or a dict, got <function"),
        ("work_dir = 'work/{{ fileBasename }}'", "without quotes"),
        ("model = {1.5: 2}", "model: expected keys that are strings or whole numbers, got 1.5"),
        ("model = [dict(a={1, 2})]", "model.0.a: expected text, a number, a list or a dict, got {{1, 2}}, a set."),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(write, tmp_path, text, words):
    write("seed = 1\nmodel = dict(depth=1)", "base.py")
    write("seed = 1", "other.py")
    assert words.format(tmp_path) in refusal(read, write(text))


def test_a_missing_file_names_the_nearest():
    assert "did you mean 'cifar10_pape.py'?" in refusal(load, CIFAR.with_name("cifar10_pap.py"))
    assert "nor does its folder" in refusal(load, ROOT / "config" / "x.py")
    assert "configs are .py files" in refusal(load, CIFAR.parent)
    assert "configs are .py files" in refusal(load, ROOT / "README.md")
