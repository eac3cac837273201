"""Training: whole runs, resumed runs, parameter groups, smoothed and mixed labels, against hand-made references."""

import json
from typing import ClassVar

import pytest
import torch
from mmengine.config import Config
from scipy import stats
from torch import nn

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.run import build_loader, evaluate, train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.optim import build_optimizer, parameter_groups
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.registry import BACKBONES, METRICS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.image.transforms.mix import ImageMix, box
from tests.soak import tiny
from tests.soak.tiny import differences


class Falling(Metric):
    """A metric with given values."""

    main, better, unit = "error", "lower", "px"
    values: ClassVar[list[float]] = []

    def process(self, data_batch, data_samples):
        self.results += [0] * len(data_samples)

    def compute_metrics(self, results):
        return dict(error=self.values.pop(0))


@pytest.fixture(scope="module", autouse=True)
def falling():
    METRICS.get("Accuracy")
    METRICS.register_module(module=Falling)
    yield
    METRICS.module_dict.pop("Falling")


def config(epochs=4, **changes):
    train_cfg = dict(max_epochs=epochs, accumulate=1, clip_grad=1.0, amp=None, compile=False)
    cfg = tiny.config(batch=8, train_cfg=train_cfg, **changes)
    cfg.model.backbone.depth = 2
    return cfg


def test_one_seed_gives_the_same_numbers_to_the_last_bit_and_another_does_not(tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(config(epochs=1, seed=seed), tmp_path / name)
    assert differences(tmp_path / "a", tmp_path / "b") == []
    assert any(name.startswith("last.pth: model") for name in differences(tmp_path / "a", tmp_path / "c"))


def test_files_of_a_run_have_the_results_of_the_best_checkpoint(tmp_path):
    results = train(config(ema=None), tmp_path / "run")
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert written == results
    measured = {"config", "encoding", "dataset", "test", "val", "main_metric", "quantities"}
    assert set(written) == measured | {"epochs", "seed", "params", "minutes"}
    assert written["main_metric"] == "accuracy"
    assert written["quantities"]["accuracy"] == dict(better="higher", unit="share", decimals=2)
    assert written["encoding"] == "PaPE"
    assert 0 <= written["test"]["accuracy"] <= 1
    for name in ("config.py", "best.pth", "last.pth", "curves.png", "confusion_matrix.png"):
        assert (tmp_path / "run" / name).stat().st_size > 0
    history = checkpoint.load(tmp_path / "run" / "last.pth")["history"]
    assert results["val"]["accuracy"] == max(epoch["accuracy"] for epoch in history)
    model = build_model(config())
    checkpoint.load_weights(model, checkpoint.load(tmp_path / "run" / "best.pth"), "best.pth")
    assert evaluate(config(), model, build_loader(config(), "test")).values == results["test"]


def test_a_config_without_classes_gets_their_number_from_the_data(tmp_path, capsys):
    """Issue 44.9: `model.head.classes` was required."""
    cfg = config(epochs=1)
    given = dict(type="Classifier", label_smoothing=0.1)
    cfg.model["head"] = Config(dict(head=given)).head
    results = train(cfg, tmp_path / "run")
    assert "model.head.classes is 3, from the data" in capsys.readouterr().out
    assert saved.read(tmp_path / "run" / "config.json")["model"]["head"]["classes"] == 3
    assert "classes" not in cfg.model.head
    content = checkpoint.load(tmp_path / "run" / "best.pth")
    model = build_model(cfg, class_names=content["classes"])  # as programs build it from the user's own config
    checkpoint.load_weights(model, content, "best.pth")
    assert evaluate(cfg, model, build_loader(cfg, "test")).values == results["test"]
    cfg.train_cfg.max_epochs = 2
    assert train(cfg, tmp_path / "run", resume=True)["epochs"] == 2


@pytest.mark.parametrize("validated_on_test", [False, True])
def test_a_val_split_that_is_the_test_set_is_in_the_log_and_in_results_json(tmp_path, capsys, validated_on_test):
    cfg = config(epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny.SoakSquares, "splits", ("train", "val"))
        for split in ("train", "val"):
            cfg[f"{split}_dataloader"].dataset.val_is_test = validated_on_test
        results = train(cfg, tmp_path / "run")
    said = capsys.readouterr().out
    held_out = "; validation samples are held out of train" * (not validated_on_test)
    assert f"the data has no test split, so its val split is the test set{held_out}\n" in said
    assert results["test_is_val"] is True
    assert results.get("val_is_test", False) is validated_on_test
    assert ("the validation set is the test set" in said) == validated_on_test


def test_a_missing_checkpoint_or_one_of_another_model_raises_a_one_line_error(tmp_path):
    with pytest.raises(DataError, match="no checkpoint at"):
        checkpoint.load(tmp_path / "absent.pth")
    model = build_model(config())
    other = dict(model={**model.state_dict(), "head.linear.bias": torch.zeros(4)})
    with pytest.raises(DataError, match=r"does not fit the model: head.linear.bias \(4,\) instead of \(3,\)"):
        checkpoint.load_weights(model, other, "other.pth")


def test_early_stopping_counts_epochs_without_improvement(tmp_path):
    cfg = config(optimizer=dict(type="SGD", lr=1e-30), early_stopping=dict(patience=2), ema=None)
    assert train(cfg, tmp_path / "run")["epochs"] == 3


@pytest.mark.parametrize("errors, best, epochs", [([5, 3, 4, 3.5, 1], 2, 4), ([float("nan"), 9, 2], 3, 3)])
def test_the_lowest_value_is_the_best_if_lower_is_better(tmp_path, capsys, errors, best, epochs):
    """Issue 44.1: the checkpoint with the highest error was the best, and patience counted from it."""
    stopping = dict(early_stopping=dict(patience=2), ema=None)
    Falling.values = [*errors[:epochs], 7.0]  # the last one is the test's
    results = train(config(len(errors), metrics=[dict(type="Falling")], **stopping), tmp_path)
    assert checkpoint.load(tmp_path / "best.pth")["epoch"] == best
    assert (results["val"], results["epochs"]) == (dict(error=errors[best - 1]), epochs)
    assert results["quantities"] == dict(error=dict(better="lower", unit="px", decimals=4))
    said = capsys.readouterr().out
    assert f"best on validation: error {errors[best - 1]:.4f} px, after epoch {best} of" in said
    assert "test, with the checkpoint best on validation: error 7.0000 px" in said


@pytest.mark.parametrize(
    "attribute, value, message",
    [
        ("main", "missing", r"Falling.compute_metrics\(\) must return its main value 'missing', got error"),
        ("better", "down", "Falling: `better` of a metric must be 'higher' or 'lower', got 'down'"),
    ],
)
def test_a_metric_that_contradicts_itself_is_named(tmp_path, monkeypatch, attribute, value, message):
    monkeypatch.setattr(Falling, attribute, value)
    Falling.values = [1.0]
    with pytest.raises((DataError, ConfigError), match=message):
        train(config(1, metrics=[dict(type="Falling")], ema=None), tmp_path)


def test_beta1_reaches_the_optimizer_or_is_refused(tmp_path):
    cycle = dict(type="OneCycle", betas=(0.85, 0.95))
    train(config(schedule=cycle, optimizer=dict(type="AdamW", lr=1e-3)), tmp_path / "run")
    groups = checkpoint.load(tmp_path / "run" / "last.pth")["optimizer"]["param_groups"]
    assert [group["betas"][0] for group in groups] == pytest.approx([0.95] * len(groups))
    with pytest.raises(ValueError, match="expected an optimizer with betas, got SGD"):
        train(config(schedule=cycle, optimizer=dict(type="SGD", lr=1e-3)), tmp_path / "other")


@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD"])
def test_an_optimizer_without_weight_decay_has_that_of_its_class(kind):
    """AdamW had 0 instead of torch's 0.01."""
    (group,) = build_optimizer(build_model(config()), dict(type=kind, lr=1e-3)).param_groups
    own = getattr(torch.optim, kind)([torch.zeros(1, requires_grad=True)], lr=1e-3)
    assert group["weight_decay"] == own.param_groups[0]["weight_decay"]


def test_learning_rates_by_name():
    model = build_model(config())
    groups = parameter_groups(model, 0.05, lr_factors={"blocks.1": 0.01, "blocks": 0.1})
    found = {name: g["lr_scale"] for g in groups for name in g["names"]}
    assert found["backbone.blocks.0.mlp.0.weight"] == 0.1
    assert found["backbone.blocks.1.mlp.0.weight"] == 0.01
    assert found["head.linear.weight"] == 1.0
    with pytest.raises(ValueError, match="expected a part of a parameter's name, got 'blok'"):
        parameter_groups(model, 0.05, lr_factors=dict(blok=0.1))


def test_layer_decay_and_no_decay_group_parameters_by_depth_and_kind():
    model = build_model(config())
    groups = parameter_groups(model, 0.05, layer_decay=0.5, no_decay=True)
    found = {name: (g["lr_scale"], g["weight_decay"]) for g in groups for name in g["names"]}
    assert set(found) == {name for name, _ in model.named_parameters()}
    assert found["modalities.image.project.weight"] == (0.125, 0.05)
    assert found["modalities.image.tokens"] == (0.125, 0.0)
    assert found["backbone.blocks.0.mlp.0.weight"] == (0.25, 0.05)
    assert found["backbone.blocks.1.mlp.0.bias"] == (0.5, 0.0)
    assert found["backbone.final_norm.weight"] == (1.0, 0.0)
    assert found["head.linear.weight"] == (1.0, 0.05)
    plain = parameter_groups(model, 0.05)
    assert len(plain) == 1
    assert (plain[0]["lr_scale"], plain[0]["weight_decay"]) == (1.0, 0.05)


def test_layer_decay_of_point_and_video_backbones():
    """Later layers never learn slower than earlier ones, nor faster than the head."""
    tiny = dict(enc_depths=(1, 2), enc_channels=(16, 16), enc_heads=(1, 1), dec_depths=(1,), dec_channels=(16,))
    points = BACKBONES.create(dict(type="PTv3", in_channels=16, grid_size=0.1, dec_heads=(1,), **tiny))
    video = BACKBONES.create(
        dict(type="FactorizedTransformer", dim=16, depth=2, time_depth=1, heads=2, position_dims=3)
    )
    expected = {
        points: {
            "stem.conv.weight": 5,
            "encoder.0.blocks.0.norm1.weight": 4,
            "encoder.1.resample.proj.weight": 3,
            "encoder.1.blocks.0.norm1.weight": 3,
            "encoder.1.blocks.1.norm1.weight": 2,
            "decoder.0.resample.skip.0.weight": 1,
            "decoder.0.blocks.0.norm1.weight": 1,
        },
        video: {
            "summary": 4,
            "space.blocks.0.norm1.weight": 3,
            "space.blocks.1.norm1.weight": 2,
            "space.final_norm.weight": 2,
            "time.blocks.0.norm1.weight": 1,
            "time.final_norm.weight": 0,
        },
    }
    for backbone, layers in expected.items():
        model = nn.ModuleDict(dict(modalities=nn.Linear(2, 2), backbone=backbone, head=nn.Linear(2, 2)))
        groups = parameter_groups(model, 0.0, layer_decay=0.5)
        found = {name: g["lr_scale"] for g in groups for name in g["names"]}
        assert {name: found[f"backbone.{name}"] for name in layers} == {n: 0.5**k for n, k in layers.items()}
        assert found["head.weight"] == 1.0
        assert found["modalities.weight"] == 0.5 ** (backbone.depth + 1) == min(found.values())


def test_layer_decay_needs_a_layered_backbone():
    model = nn.ModuleDict(dict(backbone=nn.Linear(2, 2), head=nn.Linear(2, 2)))
    with pytest.raises(ValueError, match=r"expected a backbone with `depth` and `layer_index\(name\)`, got Linear"):
        parameter_groups(model, 0.0, layer_decay=0.5)
    assert parameter_groups(model, 0.0)


def test_weights_that_an_encoding_excludes_have_no_weight_decay():
    model = build_model(config())
    model.backbone = type(model.backbone)(16, 1, 2, 2, dict(type="RoPEMixed"))
    groups = parameter_groups(model, 0.05, no_decay=True)
    found = {name: g["weight_decay"] for g in groups for name in g["names"]}
    assert found["backbone.blocks.0.attention.encoding.frequencies"] == 0.0


def test_the_classifier_starts_uniform_and_smooths_labels():
    head = Classifier(8, 5, label_smoothing=0.1)
    tokens = TokenSet(torch.randn(4, 3, 8), Where(torch.zeros(1, 3, 2)))
    torch.testing.assert_close(head(tokens).softmax(-1), torch.full((4, 5), 0.2))
    nn.init.normal_(head.linear.weight)
    targets = head.targets([dict(label=i) for i in (0, 4, 2, 2)], torch.device("cpu"))
    with pytest.raises(DataError, match=r"^a\.wav has the label 5, but there are 5 classes, 0 to 4: correct what"):
        head.targets([dict(label=0), dict(label=5, path="a.wav")], torch.device("cpu"))
    soft = 0.9 * targets + 0.1 / 5
    expected = -(soft * head(tokens).log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(head.loss(tokens, targets)["loss"], expected)


def test_the_mean_is_over_valid_tokens_with_positions():
    head = Classifier(8, 2, pool="mean")
    nn.init.normal_(head.linear.weight)
    x = torch.randn(1, 4, 8)
    where = Where(
        torch.zeros(1, 4, 2),
        valid=torch.tensor([[True, True, True, False]]),
        placed=torch.tensor([[False, True, True, True]]),
    )
    torch.testing.assert_close(head(TokenSet(x, where)), head.linear(x[:, 1:3].mean(1)))


def test_mixup_blends_images_and_labels_alike():
    torch.manual_seed(1)
    images = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8)
    mixed, targets = ImageMix(mixup=0.8)(dict(image=images), torch.eye(4))
    torch.testing.assert_close(targets.sum(1), torch.ones(4))
    torch.testing.assert_close(mixed["image"][:, 0, 0, 0], (targets * torch.arange(4.0)).sum(1))


def test_cutmix_shares_labels_by_area():
    for seed in range(20):
        torch.manual_seed(seed)
        images = torch.arange(4.0)[:, None, None, None].expand(4, 3, 8, 8)
        mixed, targets = ImageMix(cutmix=1.0)(dict(image=images), torch.eye(4))
        assert set(mixed["image"].unique().tolist()) <= {0.0, 1.0, 2.0, 3.0}
        torch.testing.assert_close(mixed["image"][:, 0].mean((1, 2)), (targets * torch.arange(4.0)).sum(1))


def test_a_box_of_cutmix_has_the_rest_of_the_area():
    """Where it is not clipped, which the center of a large image decides."""
    torch.manual_seed(0)
    for share in (0.5, 0.8, 0.95):
        areas = []
        for _ in range(400):
            top, bottom, left, right = box(400, 600, share)
            if top > 0 < left and bottom < 400 and right < 600:
                areas.append((bottom - top) * (right - left) / (400 * 600))
        assert len(areas) > 10
        assert max(areas) == pytest.approx(1 - share, abs=0.01)


def test_mixup_and_cutmix_each_have_half_of_the_batches_and_their_own_shares():
    images, targets = torch.arange(2.0)[:, None, None, None].expand(2, 1, 16, 16), torch.eye(2)
    torch.manual_seed(0)
    mix, shares = ImageMix(mixup=0.2, cutmix=1.0), {"mixup": [], "cutmix": []}
    for _ in range(2000):
        mixed, labels = mix(dict(image=images), targets)
        kind = "cutmix" if set(mixed["image"].unique().tolist()) <= {0.0, 1.0} else "mixup"
        if float(labels[0, 0]) < 1:  # an image that is not mixed with itself
            shares[kind].append(float(labels[0, 0]))
    assert 0.45 < len(shares["mixup"]) / sum(map(len, shares.values())) < 0.6
    assert stats.kstest(shares["mixup"], stats.beta(0.2, 0.2).cdf).pvalue > 1e-3


def test_a_box_of_cutmix_lies_inside_the_image():
    torch.manual_seed(0)
    for share in (0.0, 0.3, 1.0):
        for _ in range(50):
            top, bottom, left, right = box(7, 9, share)
            assert 0 <= top <= bottom <= 7
            assert 0 <= left <= right <= 9
