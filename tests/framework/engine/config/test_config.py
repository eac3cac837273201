"""Configs: inheritance by mmengine's rules, and no unknown keys."""

import copy
import pickle

import mmengine.config
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import StrictConfig, check, load
from tests.encodings_of_papers import with_encodings
from tests.framework.engine.conftest import CIFAR, refusal
from tests.programs import ROOT

CONFIGS = sorted((ROOT / "configs").glob("*.py"))
FILES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


# The configs of the repository


DATASETS = [path.stem.removesuffix("_pape") for path in CONFIGS if path.stem.endswith("_pape")]
OTHERS = [pytest.param(path, None, id=path.stem) for path in CONFIGS if not path.stem.endswith("_pape")]


@pytest.mark.parametrize("path, encoding", [*OTHERS, *with_encodings(*DATASETS)])
def test_every_config_loads_and_its_small_model_builds(path, encoding):
    load(path, encoding=encoding)
    small = load(path, encoding=encoding, sample=True)
    model = build_model(small, class_names=["one"])  # for heads that take the number from data
    assert sum(p.numel() for p in model.parameters()) < 3e6  # a sparse kernel is 27 matrices


@pytest.mark.parametrize("data", ["imagenet1k", "cifar10", "cifar100", "mnist", "imagefolder", "coco", "ade20k"])
def test_every_dataset_has_a_config(data):
    cfg = load(ROOT / "configs" / f"{data}_pape.py")
    assert cfg.model.backbone.encoding == dict(type="PaPE", m=50)
    assert cfg.sample_data == data
    assert cfg.sample.data_root != cfg.data_root


def test_imagenet_is_trained_as_in_the_paper():
    cfg = load(ROOT / "configs" / "imagenet1k_pape.py")
    assert (cfg.optimizer.type, cfg.optimizer.lr, cfg.optimizer.weight_decay) == ("AdamW", 6e-4, 0.05)
    assert tuple(cfg.optimizer.betas) == (0.9, 0.999)
    assert cfg.param_groups is None  # decay on all parameters
    assert (cfg.train_dataloader.batch_size, cfg.train_cfg.max_epochs) == (1024, 300)
    assert cfg.schedule == dict(type="WarmupCosine", warmup=0.05)
    assert (cfg.model.mix.mixup, cfg.model.mix.cutmix, cfg.model.head.label_smoothing) == (0.8, 1.0, 0.1)
    backbone = cfg.model.backbone
    assert (backbone.dim, backbone.depth, backbone.heads, backbone.drop_path) == (768, 12, 12, 0.1)
    assert cfg.model.modalities.image == dict(type="ImagePatches", patch=16, class_at="origin", start=1)
    assert [t.type for t in cfg.train_dataloader.dataset.transforms[:3]] == ["RandomResizedCrop", "Flip", "RandAugment"]


# Options


def test_options_reach_into_dicts_and_lists():
    cfg = load(
        CIFAR,
        [
            "train_dataloader.dataset.transforms.1.p=0.25",
            "optimizer=dict(lr=0.1)",
            "ema.decay=0.99",
            "metrics=[dict(_delete_=True, type=Accuracy)]",
            "model.head=dict(_delete_=True, type=Classifier, classes=3)",
            "seed=7",
        ],
    )
    assert [t.get("p") for t in cfg.train_dataloader.dataset.transforms] == [None, 0.25, None]
    assert (cfg.optimizer.lr, cfg.optimizer.type) == (0.1, "Adam")
    assert (cfg.ema, cfg.metrics, cfg.seed) == (dict(decay=0.99), [dict(type="Accuracy")], 7)
    assert cfg.model.head == dict(type="Classifier", classes=3)


def test_options_that_reach_nothing_are_refused():
    assert "expected an index below 3" in refusal(load, CIFAR, ["train_dataloader.dataset.transforms.3.p=1"])
    assert "expected an index below 3" in refusal(load, CIFAR, ["train_dataloader.dataset.transforms.Flip.p=1"])
    assert "expected a dict or a list at model.backbone.depth, got 12" in refusal(
        load, CIFAR, ["model.backbone.depth.x=1"]
    )


def test_an_option_given_in_two_places_is_refused():
    assert "the options set seed twice" in refusal(load, CIFAR, ["seed=1", "seed=1"])
    for name in ("model.backbone.encoding=None", "model.backbone.encoding.type=ALiBi"):
        assert "both set model.backbone.encoding" in refusal(load, CIFAR, [name], "PaPE")
    assert load(CIFAR, ["model.backbone.encoding.m=9"], "PaPE").model.backbone.encoding == dict(type="PaPE", m=9)


def test_an_encoding_replaces_the_old_one_wholly():
    assert load(CIFAR, encoding="ALiBi").model.backbone.encoding == dict(type="ALiBi")
    assert load(CIFAR, encoding="Sincos, PaPE(m=8)").model.backbone.encoding[1] == dict(type="PaPE", m=8)
    assert load(CIFAR, encoding="ALiBi", sample=True).model.backbone.encoding == dict(type="ALiBi")


# The small version


def test_sample_is_merged_over_the_file_and_under_the_options():
    full, small = load(CIFAR), load(CIFAR, ["model.backbone.depth=1"], sample=True)
    assert small.model.backbone.dim == full.sample.model.backbone.dim != full.model.backbone.dim
    assert small.model.backbone.depth == 1
    assert small.data_root == full.sample.data_root != full.data_root
    changed = load(CIFAR, ["sample.model.backbone.dim=32"], sample=True)
    assert changed.model.backbone.dim == 32
    assert changed.sample == {}


def test_asking_for_the_sample_again_changes_nothing(write):
    small = load(CIFAR, ["train_cfg.max_epochs=2"], sample=True)
    path = write(small.pretty_text)
    assert load(path, sample=True).to_dict() == load(path).to_dict() == small.to_dict()


def test_a_sample_may_delete(on_cifar):
    path = on_cifar("sample = dict(model=dict(backbone=dict(encoding=dict(_delete_=True, type='ALiBi'))))")
    assert load(path).model.backbone.encoding == dict(type="PaPE", m=50)
    assert load(path, sample=True).model.backbone.encoding == dict(type="ALiBi")


def test_a_typo_in_the_sample_shows_without_it(on_cifar):
    path = on_cifar("sample = dict(model=dict(backbone=dict(dpeth=2)))")
    assert refusal(load, path) == "sample.model.backbone.dpeth: nothing reads it, did you mean depth?"


def test_a_preset_is_merged_under_the_sample_and_the_options(write, on_cifar):
    text = on_cifar("versions = dict(mild=dict(optimizer=dict(lr=0.5), train_cfg=dict(max_epochs=7)))")
    assert load(text).optimizer.lr != 0.5
    cfg = load(text, ["preset=mild", "train_cfg.max_epochs=9"])
    assert (cfg.optimizer.lr, cfg.train_cfg.max_epochs, cfg.preset) == (0.5, 9, "mild")
    again = load(write(cfg.pretty_text, "again.py"))
    assert (again.optimizer.lr, again.train_cfg.max_epochs) == (0.5, 9)
    assert "has no preset 'mid', did you mean 'mild'?" in refusal(load, text, ["preset=mid"])
    assert "versions.bad.optimizer.lrr: nothing reads it" in refusal(
        load, on_cifar("versions = dict(bad=dict(optimizer=dict(lrr=1)))")
    )


def test_a_config_without_a_sample_says_so(on_cifar):
    assert "has no `sample`" in refusal(load, on_cifar("sample = None"), sample=True)


# The result


def test_what_comes_out_is_a_config_of_mmengine():
    cfg = load(CIFAR)
    assert isinstance(cfg, mmengine.config.Config)
    assert cfg.filename == str(CIFAR)
    assert (cfg.ema, cfg.train_cfg.amp, cfg.visualizer) == (None, None, None)  # the table's defaults
    for same in (copy.deepcopy(cfg), pickle.loads(pickle.dumps(cfg))):
        assert same.pretty_text == cfg.pretty_text
        assert same.to_dict() == cfg.to_dict()
    check(cfg)
    assert "float('inf')" in StrictConfig(dict(x=float("inf"))).pretty_text  # mmengine's does not read back


@pytest.mark.parametrize("encoding", ["ALiBi", "Sincos, PaPE(m=8)"])
def test_another_encoding_is_not_given_the_options_that_the_small_version_has_for_the_first(encoding):
    path = ROOT / "configs" / "dvsgesture_pape.py"
    assert load(path, sample=True).model.backbone.encoding.init_radius == [1, 8.4]
    for sample in (False, True):
        cfg = load(path, encoding=encoding, sample=sample)
        assert "init_radius" not in str(cfg.model.backbone.encoding)
    assert load(path).sample.model.backbone.encoding.init_radius == [1, 8.4]


SHARES = st.floats(0, 1, exclude_max=True)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "optimizer.lr": st.floats(0, 1, exclude_min=True),
        "optimizer.betas": st.tuples(SHARES, SHARES),
        "seed": st.integers(0, 2**32 - 1),
        "work_dir": st.text("ab'\"\\/ \n", min_size=1, max_size=9),
        "data_root": st.sampled_from(["x", "a b"]),
        "model.backbone.drop_path": st.lists(SHARES, max_size=40),
        "ema": st.just(dict(decay=0.9)),
        "model.head.classes": st.integers(1, 10**6),
    },
)

OF_ONE_DATASET = [
    path for path in CONFIGS if "Mixture" not in path.read_text()
]  # a mixture's parts say their data_root


@settings(FILES, max_examples=20)
@given(st.sampled_from(OF_ONE_DATASET), CHANGES, st.booleans(), st.sampled_from([None, "ALiBi", "Sincos, PaPE(m=8)"]))
def test_a_loaded_config_reads_back_the_same(write, path, changes, sample, encoding):
    if load(path).model.backbone.type in ("PTv3", "UniTR"):
        changes.pop("model.backbone.drop_path", None)  # one rate in PTv3, none in UniTR
    options = [f"{key}={value!r}" for key, value in changes.items()]
    cfg = load(path, options, encoding, sample)
    for key, value in changes.items():
        found = cfg
        for step in key.split("."):
            found = found[step]
        assert found == value
    again = load(write(cfg.pretty_text, "again.py"))
    assert again.to_dict() == cfg.to_dict()
    assert again.pretty_text == cfg.pretty_text


def test_options_of_a_version_apply_to_the_version(tmp_path):
    versions = "versions=dict(big=dict(model=dict(backbone=dict(depth=6, encoding=dict(m=3)))))"
    (tmp_path / "c.py").write_text(f"_base_ = ['{ROOT / 'configs' / 'mnist_small.py'}']\n{versions}\n")
    assert load(tmp_path / "c.py", ["preset=big", "versions.big.model.backbone.depth=8"]).model.backbone.depth == 8
    assert load(tmp_path / "c.py", [], "Sincos").model.backbone.encoding.type == "Sincos"
    assert load(tmp_path / "c.py", ["preset=big"], "Sincos").model.backbone.depth == 6
