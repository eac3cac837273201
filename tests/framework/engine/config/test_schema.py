"""Unknown keys and values of wrong types are refused, with suggestions."""

import copy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndformer.framework.engine.config.checker import PLACES
from ndformer.framework.engine.config.load import check, load
from ndformer.framework.engine.config.schema import describe_keys
from ndformer.framework.engine.config.text import format_config
from ndformer.framework.registry.signature import arguments, fits
from tests.framework.engine.conftest import CIFAR, refusal
from tests.programs import ROOT

TRAIN, ENCODING = "train_dataloader.dataset", "model.backbone.encoding"


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["model.backbone.depht=8"], "model.backbone.depht: nothing reads it, did you mean depth?"),
        (["modle.x=8"], "modle: nothing reads it, did you mean model?"),
        (["model.depth=8"], "model.depth: nothing reads it, did you mean model.backbone.depth?"),
        (["max_epochs=8"], "max_epochs: nothing reads it, did you mean train_cfg.max_epochs?"),
        (["quux=8"], "quux: nothing reads it; names of your own begin with an underscore"),
        (["model.head.quux=8"], "model.head.quux: nothing reads it; Classifier reads classes, pool, label_smoothing"),
        (["train_cfg.epochs=8"], "train_cfg.epochs: nothing reads it, did you mean max_epochs?"),
        (["ema.deacy=0.9"], "ema.deacy: nothing reads it, did you mean decay?"),
        (["metrics.0.tpye=1"], "metrics.0.tpye: nothing reads it, did you mean type?"),
        (["metrics=[dict(tpye='Accuracy')]"], "metrics.0.tpye: nothing reads it, did you mean type?"),
        ([f"{TRAIN}.transforms.0.pading=1"], f"{TRAIN}.transforms.0.pading: nothing reads"),
        ([f"{ENCODING}.type=ALiBi"], f"{ENCODING}.m: nothing reads it: it is an argument of PaPE, not of ALiBi"),
        (
            ["optimizer.type=SGD", "optimizer.betas=(.9,.9)"],
            "dict(_delete_=True, type='SGD', ...) removes the arguments that a base config",
        ),
        ([f"{ENCODING}.preset=pape_repo"], "it is an argument of AxialRoPE, not of PaPE"),
        (["model.backbone=dict(_delete_=True,type=Transformer,dim=8,heads=1,depth=1)"], "position_dims is missing"),
        (["optimizer=dict(_delete_=True, type=SGD)"], "optimizer.lr is missing: SGD needs it"),
        ([f"{ENCODING}.heads=8"], f"{ENCODING}.heads: ndformer sets it for PaPE, leave it out"),
        (["model.head.dim=8"], "model.head.dim: ndformer sets it for Classifier"),
        (["optimizer.params=[]"], "optimizer.params: ndformer sets it for Adam"),
        (
            ["optimizer.type=Adamw"],
            "optimizer.type: no optimizer is called 'Adamw', did you mean 'AdamW'?",
        ),
        (["model.type=TokenModell"], "model.type: no model is called 'TokenModell', did you mean 'TokenModel'?"),
        (["model.head.type=Clasifier"], "model.head.type: no head is called 'Clasifier', did you mean 'Classifier'?"),
        (["schedule.type=quux"], "Known: Constant, OneCycle, WarmupCosine"),
        ([f"{TRAIN}.type=CIFAR"], f"{TRAIN}.type: no dataset is called 'CIFAR', did you"),
        ([f"{TRAIN}.transforms.1.type=Flop"], f"{TRAIN}.transforms.1.type: no transform"),
        (["model.modalities.image.type=ImagePatch"], "model.modalities.image.type: no modality is called 'ImagePatch'"),
        (["model.modalities.image.pach=4"], "model.modalities.image.pach: nothing reads it, did you mean patch?"),
        (
            ["model.mix=dict(type=ImageMix, mixup=1, cutmx=1)"],
            "model.mix.cutmx: nothing reads it, did you mean cutmix?",
        ),
        (["model.head=Classifier"], "model.head: a head is written dict(type='NAME', ...), got 'Classifier'"),
        (
            ["model.mix={'mixup':0.2}"],
            "a mixer is written dict(type='NAME', ...), got {'mixup': 0.2}; with these options NAME is ImageMix",
        ),
        ([f"{ENCODING}=PaPE"], f"{ENCODING}: an encoding is written dict(type='NAME', ...)"),
        (["metrics=[Accuracy]"], "metrics.0: a metric is written dict(type='NAME', ...), got 'Accuracy'"),
        ([f"{ENCODING}=[dict(type=PaPE), dict(type=Nope2)]"], f"{ENCODING}.1.type: no encoding"),
    ],
)
def test_what_nothing_reads_is_refused_with_the_nearest(options, sentence):
    text = refusal(load, CIFAR, options)
    assert sentence in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "option, words",
    [
        ("model.backbone.depth=twelve", "takes a whole number from 1 to 1024, got 'twelve'"),
        ("model.backbone.depth=12.0", "takes a whole number from 1 to 1024, got 12.0"),
        ("model.backbone.depth=True", "takes a whole number from 1 to 1024, got True"),
        ("model.backbone.drop_path=[0.1,x]", "or a list, each item a number from 0 and below 1, got [0.1, 'x']"),
        ("model.backbone.initial_norm=yes", "takes True or False, got 'yes'"),
        ("model.head.pool=max", "takes 'class' or 'mean', got 'max'"),
        ("optimizer.lr=fast", "takes a number above 0 and up to 1e+12, got 'fast'"),
        ("optimizer.betas=(0.9,)", "takes a list of 2 (a number from 0 and below 1, a number from 0 and below 1), got"),
        ("train_cfg=300", "train_cfg: takes dict(max_epochs=, accumulate="),
        ("train_cfg.amp=bf61", "takes 'bf16', 'fp16' or None, got 'bf61'"),
        ("ema=0.99", "takes dict(decay=) or None, got 0.99"),
        ("seed=None", "seed: takes a whole number from 0 to 4294967295, got None"),
        ("data_root=3", "data_root: takes a string that is not empty or None, got 3"),
        ("train_dataloader.dataset.transforms=dict(type=Flip)", "a dict cannot merge with [{"),
        ("train_dataloader.dataset.transforms=dict(_delete_=True,type=Flip)", "transforms: takes a list, each item"),
        ("metrics=None", "metrics: takes a list, each item a dict, got None"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(option, words):
    assert words in refusal(load, CIFAR, [option])


def test_several_problems_are_several_lines():
    lines = refusal(load, CIFAR, ["modle=1", "seed=x", "model.backbone.depht=1"]).splitlines()
    assert [line.split(":")[0] for line in lines] == ["model.backbone.depht", "modle", "seed"]


@pytest.mark.parametrize("key", ["model", "train_dataloader", "optimizer", "schedule", "train_cfg", "metrics"])
def test_a_missing_part_is_named(write, key):
    rest = {k: v for k, v in load(CIFAR).to_dict().items() if k != key}
    assert refusal(load, write(format_config(rest))) == f"{key} is missing: every config needs it"


def places(cfg, at=()):
    """Yield the places of keys in a config, without names of modalities."""
    items = cfg.items() if isinstance(cfg, dict) else enumerate(cfg) if isinstance(cfg, (list, tuple)) else ()
    for key, value in items:
        if isinstance(key, str) and at[-1:] != ("modalities",):
            yield (*at, key)
        yield from places(value, (*at, key))


def renamed(cfg, place, name):
    cfg = copy.deepcopy(cfg)
    inside = cfg
    for key in place[:-1]:
        inside = inside[key]
    inside[name] = inside.pop(place[-1])
    return cfg


FULL = load(
    CIFAR, ["ema.decay=0.9", "early_stopping.patience=3", "param_groups.no_decay=True", "sample=None"]
).to_dict()
PLACES_OF_FULL = sorted(set(places(FULL)), key=str)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(PLACES_OF_FULL), st.data())
def test_no_typo_in_a_key_passes(place, data):
    key = place[-1]
    i = data.draw(st.integers(0, len(key)))
    letter = data.draw(st.sampled_from("aeiou_xyz"))
    typo = data.draw(
        st.sampled_from(
            [key[:i] + letter + key[i:], key[:i] + key[i + 1 :], key[:i] + letter + key[i + 1 :], key + key]
        )
    )
    inside = FULL
    for step in place[:-1]:
        inside = inside[step]
    if typo in inside or not typo:
        return
    dotted = ".".join(map(str, (*place[:-1], typo)))
    assert f"{dotted}: " in refusal(check, renamed(FULL, place, typo))


def test_most_typos_are_told_what_was_meant():
    asked = told = 0
    for place in PLACES_OF_FULL:
        key = place[-1]
        typos = {key[:i] + key[i + 1 :] for i in range(len(key)) if len(key) > 2}
        typos |= {key[:i] + key[i + 1] + key[i] + key[i + 2 :] for i in range(len(key) - 1)}
        for typo in sorted(typos - {key})[::3]:
            text = refusal(check, renamed(FULL, place, typo))
            asked += 1
            told += f"did you mean {key}?" in text or f"did you mean {key} or" in text
    assert asked > 100
    assert told / asked > 0.97


# Classes and their arguments


class Low:
    def __init__(self, a: int, b: float = 1.0) -> None: ...


class Middle(Low):
    def __init__(self, c: str, b: str = "x", **rest) -> None: ...


class Open:
    def __init__(self, a: int, **rest) -> None: ...


def test_arguments_pass_up_to_the_bases():
    found, more = arguments(Middle)
    assert {name: one.required for name, one in found.items()} == dict(a=True, b=False, c=True)
    assert found["b"].hint is str
    assert not more
    assert arguments(Open)[1]


@pytest.mark.parametrize(
    "value, hint, answer",
    [
        (1, float, True),
        (True, float, False),
        (1, bool, False),
        ("x", Path, True),
        (90, Literal[45, 90], True),
        (90.0, Literal[45, 90], False),
        ((1, 2), tuple[int, int], True),
        ([1, 2], tuple[int, int], True),
        ([1, 2, 3], tuple[int, int], False),
        ([1, "x"], tuple[int, ...], False),
        ("ab", list[str], False),
        (dict(a="x"), dict[str, int], False),
        (dict(a=1), dict[str, int], True),
        ("x", "a name that only a type checker knows", True),
        ("cpu", SimpleNamespace, True),
    ],
)
def test_annotations_are_believed_where_they_tell(value, hint, answer):
    assert fits(value, hint) is answer


def test_custom_imports_bring_names(write, on_cifar, tmp_path, monkeypatch):
    write(
        "from ndformer.framework.registry import HEADS\n@HEADS.register_module()\nclass HeadOfConfigTest:\n"
        "    def __init__(self, dim, classes: int, width: int = 3): pass\n"
        "@HEADS.register_module()\nclass OpenHeadOfConfigTest:\n    def __init__(self, dim, **anything): pass\n",
        "head_of_config_test.py",
    )
    text = "custom_imports = dict(imports=['{}'], allow_failed_imports=False)\nmodel = dict(head=dict(type='{}'))"
    path = on_cifar(text.format("head_of_config_test", "HeadOfConfigTest"))
    assert "cannot be imported (No module named 'head_of_config_test')" in refusal(load, path)
    monkeypatch.syspath_prepend(tmp_path)
    assert load(path).model.head.type == "HeadOfConfigTest"
    assert refusal(load, path, ["model.head.widht=3"]) == "model.head.widht: nothing reads it, did you mean width?"
    assert load(path, ["model.head.type=OpenHeadOfConfigTest", "model.head.widht=3"]).model.head.widht == 3
    sys.modules.pop("head_of_config_test")


def test_the_page_of_configs_lists_every_key():
    page = (ROOT / "docs" / "reference" / "configs.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for split in ("val", "test"):
        rows += [
            row.replace("train_dataloader.", f"{split}_dataloader.") for row in rows if "`train_dataloader." in row
        ]
    keys = {f"| `{key}` | {f'`{default}` ' if default else ''}| {says} |" for key, default, says in describe_keys()}
    assert set(rows) == keys
    for place in PLACES:
        assert f"`{place}`" in page
