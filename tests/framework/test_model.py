"""A TokenModel in plain code: model(x) is what its head says, as of any module."""

import copy
import pickle
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.heads.head import Head
from ndformer.framework.losses.detection import Anchors
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import HEADS

CLASSIFIER = dict(type="Classifier", classes=3, pool="mean")
IMAGE = dict(type="ImagePatches", patch=4, class_token=False)
POINTS = dict(type="PointPatches", centers=4, neighbors=3, features=0)


def model(modalities: dict[str, Any], head: dict[str, Any] = CLASSIFIER, dims: Any = 2) -> Any:
    torch.manual_seed(0)
    blocks = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=dims, encoding=dict(type="PaPE", m=4))
    made = TokenModel(modalities, blocks, head)
    for weight in made.head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return made


def test_a_tensor_is_a_batch_of_the_one_modality_that_there_is() -> None:
    made, x = model(dict(image=IMAGE)), torch.randn(5, 3, 8, 12)
    logits = made(x)
    assert logits.shape == (5, 3)
    assert logits.requires_grad
    assert torch.equal(logits, made(dict(image=x)))
    assert torch.equal(logits, made(list(x)))
    assert torch.equal(logits, made.head(made.features(x)))
    assert torch.equal(made.features(x).features, made.backbone(made.tokens(x)).features)
    (answer, *_) = made(x, [dict(label=1)] * 5, mode="predict")
    torch.testing.assert_close(answer.scores, logits[0].softmax(-1))


@pytest.mark.parametrize(
    "modality, x, dims",
    [
        (dict(points=POINTS), torch.randn(2, 9, 3), 3),
        (dict(points=POINTS), [torch.randn(9, 3), torch.randn(7, 3)], 3),
        (dict(video=dict(type="Tubelets", tubelet=(2, 4, 4))), torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), 3),
    ],
)
def test_points_of_any_number_and_videos_are_batches_too(modality: dict[str, Any], x: Any, dims: int) -> None:
    assert model(modality, dims=dims).eval()(x).shape == (2, 3)


@pytest.mark.parametrize(
    "encoding, place",
    [
        (dict(type="PaPE", m=4), "center"),
        ([dict(type="Sincos"), dict(type="PaPECompact")], "center"),
        (dict(type="AxialRoPE"), "nowhere"),
        (None, "nowhere"),
    ],
)
def test_a_class_token_stands_where_the_encoding_reads_it_best(encoding: Any, place: str) -> None:
    blocks = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2, encoding=encoding)
    made = TokenModel(
        dict(image=dict(type="ImagePatches", patch=4, class_at="auto")), blocks, dict(type="Classifier", classes=3)
    )
    where = made.tokens(torch.randn(2, 3, 8, 8)).where
    assert (where.placed is None) == (place == "center")
    assert where.positions[0, 0].tolist() == ([0.5, 0.5] if place == "center" else [0, 0])


def test_anybodys_loop_trains_it() -> None:
    made, x, labels = model(dict(image=IMAGE)), torch.randn(6, 3, 8, 8), torch.arange(6) % 3
    optimizer, losses = torch.optim.Adam(made.parameters(), lr=1e-2), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(made(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    x = x[:2]
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(other(x), made(x))
    assert made.half().double()(x.double()).dtype == torch.float64


def test_autocast_of_whoever_calls_is_theirs() -> None:
    made, x, dtypes = model(dict(image=IMAGE)), torch.randn(2, 3, 8, 8), []
    block: Any = cast(Any, made.backbone).blocks[0]
    block.mlp[0].register_forward_hook(lambda module, given, out: dtypes.append(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        made(x)
    made.amp = torch.bfloat16  # as the engine sets it, for evaluation
    made(x)
    assert dtypes == [torch.bfloat16] * 2


def test_several_modalities_come_by_name() -> None:
    joined = model(dict(image=IMAGE | dict(plane=[(0, 0, 0), (0, 1, 0), (0, 0, 1)]), points=POINTS), dims=3)
    given = dict(image=torch.randn(2, 3, 8, 8), points=torch.randn(2, 9, 3))
    assert joined(given).shape == joined(dict(points=given["points"])).shape == (2, 3)
    with pytest.raises(TypeError, match=r"several modalities must be a dict, .* Pass dict\(image=..., points=...\)"):
        joined(given["image"])
    in_turn = model(
        dict(image=IMAGE, points=POINTS), dict.fromkeys(("image", "points"), CLASSIFIER), dict(image=2, points=3)
    )
    for name, x in given.items():
        assert torch.equal(in_turn({name: x}), in_turn.head[name](in_turn.features({name: x})))


@pytest.mark.parametrize(
    "x, sentence",
    [
        (torch.zeros(3, 8, 8), r"images must be \(batch, channels, height, width\).* got \(3, 8, 8\) of torch.float32"),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), r"normalized floats.* got \(1, 3, 8, 8\) of torch.uint8"),
        ("photo.jpg", r"must be a batch of image, a tensor, a list of tensors or dict\(image=...\), got a str"),
        (None, "got a NoneType"),
        (dict(images=torch.zeros(1, 3, 8, 8)), "no modality 'images', did you mean 'image'"),
        ({}, "must have inputs, got none"),
    ],
)
def test_what_it_does_not_take_is_a_sentence(x: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError, KeyError), match=sentence):
        model(dict(image=IMAGE))(x)


def test_each_head_says_something_of_a_type() -> None:
    neck = dict(type="SimpleFeaturePyramid", scales=(2, 1))
    for kind, given in (("Segmenter", Tensor), ("Detector", Anchors)):
        made = model(dict(image=IMAGE), dict(type=kind, classes=3, patch=4, neck=neck)).eval()
        assert isinstance(made(torch.randn(2, 3, 8, 8)), given)
    tokens = model(dict(points=dict(type="Points")), dict(type="TokenSegmenter", classes=3), 3)
    found = tokens([torch.randn(5, 19), torch.randn(4, 19)])
    assert [one.shape for one in found] == [(5, 3), (4, 3)]


def test_a_head_that_says_nothing_as_tensors_is_a_sentence() -> None:
    class Mute(Head):
        def __init__(self, dim: int) -> None:
            super().__init__()

    HEADS.register_module(module=Mute)
    try:
        with pytest.raises(TypeError, match=r"Mute has no forward\(tokens\), so it has no raw output. Use mode"):
            model(dict(image=IMAGE), dict(type="Mute"))(torch.randn(1, 3, 8, 8))
    finally:
        HEADS.module_dict.pop("Mute")


def test_targets_are_moved_to_the_device_of_the_inputs() -> None:
    """With `offload=True`, weights are in CPU memory, and FSDP moves inputs to the GPU."""
    network = model(dict(image=dict(type="ImagePatches", patch=4)))
    devices: list[torch.device] = []
    network.head.targets = lambda samples, device: devices.append(device)
    with pytest.raises(RuntimeError):  # the weights are not there
        network(torch.zeros(2, 3, 8, 8, device="meta"), [dict(label=0)] * 2, mode="loss")
    assert devices == [torch.device("meta")]
