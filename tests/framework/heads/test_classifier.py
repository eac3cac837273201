"""The classifier's arithmetic."""

import torch
import torch.nn.functional as F

from ndformer.framework.heads.classifier import Classifier, pooled
from ndformer.framework.losses.labels import lovasz_softmax
from ndformer.framework.tokens import TokenSet, Where


def test_logits_are_not_rounded_to_16_bits_under_autocast():
    torch.manual_seed(0)
    head = Classifier(16, 1000)
    torch.nn.init.normal_(head.linear.weight)
    tokens = TokenSet(torch.randn(4, 1, 16), Where(torch.zeros(1, 1, 2)))
    expected = head(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(head(tokens), expected)


def test_the_loss_is_cross_entropy_plus_the_weighted_lovasz_softmax_loss():
    torch.manual_seed(0)
    head = Classifier(8, 3, lovasz=0.25)
    torch.nn.init.normal_(head.linear.weight)
    tokens, labels = TokenSet(torch.randn(6, 1, 8), Where(torch.zeros(1, 1, 2))), torch.tensor([0, 1, 1, 2, 0, 1])
    logits = head(tokens)
    expected = F.cross_entropy(logits, labels) + 0.25 * lovasz_softmax(logits.softmax(-1), labels)
    torch.testing.assert_close(head.loss(tokens, F.one_hot(labels).float())["loss"], expected)


def test_options_reach_the_layers():
    head = Classifier(8, 3, norm=True, hidden=(6, 5), dropout=0.3)
    assert head.norm.eps == 1e-6  # as in timm
    assert [layer.p for layer in head.hidden if isinstance(layer, torch.nn.Dropout)] == [0.3, 0.3]


def test_the_mean_over_no_tokens_is_zero():
    tokens = TokenSet(torch.randn(2, 3, 4), Where(torch.zeros(2, 3, 2), valid=torch.tensor([[True] * 3, [False] * 3])))
    assert pooled(tokens, "mean")[1].tolist() == [0] * 4
