"""Segmentation of tokens: known labels alone have a loss, and all points of a scene get an answer."""

import math

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.losses.labels import lovasz_softmax
from ndformer.framework.tokens import TokenSet, Where


def tokens(counts=(5, 3), dim=6):
    x = torch.randn(len(counts), max(counts), dim)
    valid = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    return TokenSet(x, Where(torch.rand(len(counts), max(counts), 3), valid=valid))


@pytest.fixture
def head():
    torch.manual_seed(0)
    return TokenSegmenter(6, 4)


def test_the_loss_is_the_mean_over_labeled_points(head):
    given = tokens()
    samples = [dict(labels=np.array([0, -1, 2, 3, 3])), dict(labels=np.array([-7, 1, 1]))]
    loss = head.loss(given, head.targets(samples, torch.device("cpu")))
    x = torch.cat([given.features[0, [0, 2, 3, 4]], given.features[1, [1, 2]]])
    labels = torch.tensor([0, 2, 3, 3, 1, 1])
    p = head.linear(x).softmax(-1)
    torch.testing.assert_close(loss["loss"], -p[range(6), labels].log().mean() + lovasz_softmax(p, labels))


def test_padding_never_reaches_the_loss(head):
    given = tokens()
    spoiled = TokenSet(given.features.clone(), given.where)
    spoiled.features[1, 3:] = torch.nan
    samples = [dict(labels=np.zeros(5, int)), dict(labels=np.ones(3, int))]
    targets = head.targets(samples, torch.device("cpu"))
    assert head.loss(given, targets)["loss"] == head.loss(spoiled, targets)["loss"]


def test_a_batch_without_labels_trains_nothing(head):
    loss = head.loss(tokens((2,)), [torch.tensor([-1, -1])])["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad.abs().max() == 0 for p in head.parameters())


def test_labels_beyond_the_classes_are_errors(head):
    with pytest.raises(DataError, match=r"room has the label 4, but there are 4 classes, 0 to 3"):
        head.targets([dict(labels=np.array([0, 4]), path="room")], torch.device("cpu"))
    with pytest.raises(ValueError, match="one label per token, 8, got 7 labels"):
        head.loss(tokens(), [torch.zeros(7, dtype=torch.long)])


def test_predictions_are_of_all_raw_points(head):
    given = tokens()
    inverse = np.array([4, 0, 0, 2, 1, 3, 3])
    samples = [dict(path="a", inverse=inverse, whole_labels=np.arange(7) % 4, labels=np.arange(5)), dict(path="b")]
    a, b = head.predict(given, samples)
    own = head.linear(given.features).argmax(-1)
    assert a.predicted.tolist() == own[0, inverse].tolist()
    assert a.truth.tolist() == (np.arange(7) % 4).tolist()
    assert b.predicted.tolist() == own[1, :3].tolist()
    assert b.truth is None


def test_the_classifier_of_the_recipe():
    torch.manual_seed(0)
    head = Classifier(512, 40, pool="mean", hidden=(256, 128), dropout=0.5, lovasz=1.0)
    kinds = [type(layer).__name__ for layer in head.hidden]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Dropout"] * 2
    assert head.linear.in_features == 128
    given = TokenSet(torch.randn(4, 7, 512), Where(torch.rand(4, 7, 3)))
    targets = head.targets([dict(label=i) for i in (0, 5, 5, 39)], torch.device("cpu"))
    p = torch.full((4, 40), 1 / 40)  # zero weights: every class equally likely
    expected = math.log(40) + lovasz_softmax(p, torch.tensor([0, 5, 5, 39])).item()
    assert head.loss(given, targets)["loss"].item() == pytest.approx(expected, rel=1e-5)
