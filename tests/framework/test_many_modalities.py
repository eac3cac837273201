"""Several modalities in one transformer: in turn, or joined in one token set."""

from typing import Any
from unittest.mock import patch as replaced

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ndformer.framework.adapter import Adapter
from ndformer.framework.answers.label import Label
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.mixture import Mixture, TurnBatches
from ndformer.framework.engine.training.loading import dropped_warning
from ndformer.framework.engine.training.optim import parameter_groups
from ndformer.framework.errors import UnknownNameError
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.evaluation.per_task import PerTask
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS, MODALITIES
from ndformer.framework.tokens import TokenSet, Where

DIM = 16


@MODALITIES.register_module(name="_Marks", force=True)
class Marks(Adapter):
    """(B, N, P + 1), or a list of (n, P + 1): positions and a value."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Linear(1, dim)

    def forward(self, marks: Any) -> TokenSet:
        counts = [len(m) for m in marks]
        x = nn.utils.rnn.pad_sequence(list(marks), batch_first=True)
        valid = torch.arange(x.shape[1]) < torch.tensor(counts)[:, None]
        return TokenSet(self.embed(x[..., -1:]), Where(x[..., :-1], valid=valid))


@DATASETS.register_module(name="_Numbers", force=True)
class Numbers(Dataset):
    classes = ["even", "odd"]

    def __init__(self, count: int, kind: str = "a", split: str = "train", seed: int = 0) -> None:
        self.count, self.kind = count, kind
        super().__init__("nowhere", split, val_is_test=True, seed=seed)

    def index(self, split: str) -> Any:
        return list(range(self.count)), np.arange(self.count) % 2

    def read(self, record: Any) -> Any:
        return dict(inputs={self.kind: torch.full((2, 3), float(record))}, data_sample=dict(label=record % 2))


def model(head: dict[str, Any], dims: Any, weights: dict[str, float] | None = None, **options: Any) -> TokenModel:
    torch.manual_seed(0)
    backbone = dict(type="Transformer", dim=DIM, depth=2, heads=2, position_dims=dims, encoding=dict(type="PaPE", m=4))
    built = TokenModel(
        dict(a=dict(type="_Marks"), b=dict(type="_Marks")), backbone | options, head, loss_weights=weights
    )
    for parameter in built.head.parameters():  # zero at the start: nothing would show
        nn.init.normal_(parameter)
    return built


def in_turn(**weights: float) -> TokenModel:
    one = dict(type="Classifier", classes=3, pool="mean")
    return model(dict(a=one, b=one | dict(classes=5)), dict(a=2, b=3), weights)


def joined() -> TokenModel:
    return model(dict(type="Classifier", classes=3, pool="mean"), 2).eval()


def photos(encoding: str, **modalities: Any) -> TokenModel:
    torch.manual_seed(0)
    image = dict(type="ImagePatches", patch=4)
    backbone = dict(type="Transformer", dim=DIM, depth=2, heads=2, position_dims=2, encoding=dict(type=encoding))
    return TokenModel(dict(a=image, **modalities), backbone, dict(type="Classifier", classes=3)).eval()


@pytest.mark.parametrize("encoding", ["CPE", "LogCPB", "SaPE2"])
@pytest.mark.parametrize("sizes", [[(8, 12), (8, 12)], [(8, 12), (4, 4)]])
def test_a_sample_that_is_absent_takes_no_grid_from_the_others(encoding: str, sizes: list[tuple[int, int]]) -> None:
    built = photos(encoding)
    for parameter in built.parameters():  # zero at the start: nothing would show
        nn.init.normal_(parameter, std=0.2)
    first, second = (torch.randn(3, *size) for size in sizes)
    with torch.no_grad():
        actual = built(dict(a=[None, second, None, first]))
        torch.testing.assert_close(actual[[3, 1]], torch.cat([built(x[None]) for x in (first, second)]))
        assert bool(actual.isfinite().all())


def test_joined_modalities_refuse_an_encoding_that_needs_one_grid() -> None:
    with pytest.raises(ValueError, match=r"CPE requires one grid for each sample, got the joined tokens of a, b\. For"):
        photos("CPE", b=dict(type="ImagePatches", patch=4))


# ---------------------------------------------------------------------------------------------------- in turn


def test_blocks_are_shared_and_the_rest_is_each_modality_s_own() -> None:
    built = in_turn()
    used: dict[str, set[str]] = {}
    for name, dims in (("a", 2), ("b", 3)):
        built.zero_grad()
        built({name: torch.randn(4, 6, dims + 1)}, [dict(label=i % 3) for i in range(4)], mode="loss")[
            "loss"
        ].backward()
        used[name] = {n for n, p in built.named_parameters() if p.grad is not None}
    both = used["a"] & used["b"]
    assert {n for n in both if "blocks" not in n and "norm" not in n} == set()
    assert any("blocks" in n for n in both)
    assert used["a"] | used["b"] == {n for n, _ in built.named_parameters()}
    assert all(n.startswith(("modalities.a", "head.a", "backbone.layers.a", "backbone.enc")) for n in used["a"] - both)


def test_each_modality_has_its_own_classes_and_says_its_task() -> None:
    built = in_turn().eval()
    for name, dims, classes in (("a", 2, 3), ("b", 3, 5)):
        found = built({name: torch.randn(2, 4, dims + 1)}, [dict(label=0)] * 2, mode="predict")
        assert [p.task for p in found] == [name] * 2
        assert found[0].scores.shape == (classes,)


def test_the_loss_of_a_task_counts_as_often_as_its_weight_says() -> None:
    plain, weighted = in_turn(), in_turn(b=3.0)
    for name, dims, times in (("a", 2, 1.0), ("b", 3, 3.0)):
        x = torch.randn(2, 4, dims + 1)
        once, more = (m({name: x}, [dict(label=1)] * 2, mode="loss")["loss"] for m in (plain, weighted))
        torch.testing.assert_close(more, times * once)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            dict.fromkeys("ab", dict(type="Classifier", classes=3, pool="mean")),
            "got 'bb', did you mean 'b'",
        ),
        (dict(type="Classifier", classes=3, pool="mean"), "Tasks: none, because all modalities share one head"),
    ],
)
def test_weights_of_losses_name_tasks(head: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        model(head, 2 if "type" in head else dict(a=2, b=3), dict(bb=2.0))


def test_a_batch_of_two_modalities_has_no_head() -> None:
    with pytest.raises(ValueError, match=r"a batch must have one modality, as each has its own head, got a, b"):
        in_turn()(dict(a=torch.randn(2, 4, 3), b=torch.randn(2, 4, 4)), [dict(label=0)] * 2, mode="loss")


def test_layers_of_a_space_learn_as_fast_as_their_block() -> None:
    groups = parameter_groups(in_turn(), 0.0, layer_decay=0.5)
    scale = {name: group["lr_scale"] for group in groups for name in group["names"]}
    for i in (0, 1):
        assert scale[f"backbone.layers.b.{i}.wp"] == scale[f"backbone.blocks.{i}.attention.qkv.weight"]


def test_a_space_must_be_named() -> None:
    built = in_turn()
    tokens = built.modalities["a"](torch.randn(1, 4, 3))
    with pytest.raises(ValueError, match=r"space must be one of a, b, got None"):
        built.backbone(tokens)


def test_values_of_a_task_are_those_of_the_metric_alone() -> None:
    rng = np.random.default_rng(0)
    samples = [Label(task=task, sample=dict(label=int(rng.integers(3))), scores=torch.rand(3)) for task in "aab" * 7]
    both = PerTask(dict(type="Accuracy"))
    both.process({}, samples)
    found = both.compute_metrics(both.results)
    for task in "ab":
        alone = Accuracy()
        alone.process({}, [s for s in samples if s.task == task])
        for name, value in alone.compute_metrics(alone.results).items():
            assert found[f"{task}/{name}"] == value
    assert both.main == "accuracy"
    assert found["accuracy"] == pytest.approx((found["a/accuracy"] + found["b/accuracy"]) / 2)


# ---------------------------------------------------------------------------------------------------- the mixture


def mixture(split: str = "train", **options: Any) -> Mixture:
    parts = dict(a=dict(type="_Numbers", count=10), b=dict(type="_Numbers", count=33, kind="b"))
    return Mixture(parts, split=split, **options)


def test_a_mixture_validates_on_test_where_a_part_does() -> None:
    """Issue 44.4: only the whole was asked, and its parts have the option."""
    assert mixture().val_is_test
    assert not mixture().test_is_val


def test_numbers_run_through_the_parts_one_after_the_other() -> None:
    data = mixture()
    assert len(data) == 43
    seen = [next(iter(data[0, i]["inputs"].items())) for i in range(43)]
    assert [name for name, _ in seen] == ["a"] * 10 + ["b"] * 33
    assert [int(x[0, 0]) for _, x in seen] == [*range(10), *range(33)]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 12), st.integers(0, 3), st.floats(0.2, 5.0))
def test_batches_are_of_one_part_full_and_shared_by_weight(size: int, epoch: int, weight: float) -> None:
    sampler = TurnBatches(mixture(weights=dict(a=1.0, b=weight)), size, shuffle=True)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    numbers = [[i for _, i in batch] for batch in batches]
    keys = [key for batch in batches for key in batch]
    assert len({*keys}) == len(keys)  # a sample that comes again has other random transforms
    assert {e // sampler.loops for e, _ in keys} == {epoch}
    assert {len(batch) for batch in numbers} == {size}
    of_a = [max(batch) < 10 for batch in numbers]
    assert all(max(batch) < 10 or min(batch) >= 10 for batch in numbers)
    total = -(-10 // size) + -(-33 // size)
    assert abs(sum(of_a) - total / (1 + weight)) <= 1
    assert list(sampler) == batches
    sampler.set_epoch(epoch + 1)
    assert size > 5 or list(sampler) != batches
    assert dropped_warning(sampler) is None  # its batches are filled by more passes


def test_a_part_is_gone_through_whole_before_any_sample_comes_again() -> None:
    sampler = TurnBatches(mixture(weights=dict(a=4.0, b=1.0)), 5, shuffle=True)
    of_a = [i for batch in sampler for _, i in batch if i < 10]
    for start in range(0, len(of_a) - 9, 10):
        assert sorted(of_a[start : start + 10]) == list(range(10))


def test_evaluation_sees_every_sample_once() -> None:
    sampler = TurnBatches(mixture("test", weights=dict(a=9.0, b=1.0)), 4, shuffle=False)
    assert [i for batch in sampler for _, i in batch] == list(range(43))
    assert all(max(i for _, i in b) < 10 or min(i for _, i in b) >= 10 for b in sampler)


def test_weights_name_the_parts() -> None:
    with pytest.raises(ValueError, match=r"weights expects a weight for each of a, b, got a, c"):
        mixture(weights=dict(a=1.0, c=1.0))
    with pytest.raises(ValueError, match=r"weights expects numbers above 0.*only=\[...\] to leave parts out"):
        mixture(weights=dict(a=1.0, b=0.0))


def test_only_is_as_if_there_were_no_other_parts() -> None:
    one = mixture(weights=dict(a=1.0, b=3.0), only=["b"])
    alone = Mixture(dict(b=dict(type="_Numbers", count=33, kind="b")), split="train")
    assert list(TurnBatches(one, 4, shuffle=True)) == list(TurnBatches(alone, 4, shuffle=True))
    assert one.classes == alone.classes
    assert len(one) == 33
    with pytest.raises(ValueError, match=r"only expects names among a, b, got c"):
        mixture(only=["b", "c"])


# ---------------------------------------------------------------------------------------------------- joined


def sample(a: int | None, b: int | None) -> dict[str, Any]:
    given = {name: torch.rand(n, 3) for name, n in (("a", a), ("b", b)) if n is not None}
    return dict(inputs=given, data_sample=dict(label=0))


def test_a_sample_alone_and_beside_others_that_lack_something_is_the_same() -> None:
    built = joined()
    samples = [sample(4, 3), sample(None, 5), sample(2, None), sample(6, 6)]
    together = built.forward(**collate(samples), mode="predict")
    for one, among in zip(samples, together):
        alone = built.forward(**collate([one]), mode="predict")[0]
        torch.testing.assert_close(alone.scores, among.scores, rtol=1e-5, atol=1e-6)


def test_a_masked_modality_is_as_if_no_sample_had_it() -> None:
    built = joined()
    samples = [sample(4, 3), sample(2, 5)]
    without = [dict(s, inputs=dict(a=s["inputs"]["a"])) for s in samples]
    wanted = built.features(collate(without)["inputs"]).features
    built.masked = {"b"}
    torch.testing.assert_close(built.features(collate(samples)["inputs"]).features, wanted)


def test_tokens_say_their_modality_and_carry_its_embedding() -> None:
    built = joined()
    inputs = collate([sample(2, 3)])["inputs"]
    tokens = built.tokens(inputs)
    assert tokens.modality is not None
    assert tokens.modality.tolist() == [[0, 0, 1, 1, 1]]
    with torch.no_grad():
        built.kinds[1] += 1.0
    changed = built.tokens(inputs)
    assert changed.where.positions.shape == (1, 5, 2)
    torch.testing.assert_close(changed.features - tokens.features, tokens.modality[..., None].expand(-1, -1, DIM) * 1.0)


def test_a_batch_with_nothing_in_it_is_refused() -> None:
    built = joined()
    built.masked = {"a", "b"}
    with pytest.raises(ValueError, match=r"a batch must have at least one of a, b"):
        built.forward(**collate([sample(1, 1)]), mode="predict")


def test_an_adapter_can_have_a_number_wherever_it_is_in_the_config() -> None:
    with replaced.object(Marks, "number", 7):
        built = model(dict(type="Classifier", classes=3, pool="mean"), 2)
    tokens = built.tokens(collate([sample(4, 3)])["inputs"])
    assert tokens.modality is not None
    assert tokens.modality[0].tolist() == [7] * 7
