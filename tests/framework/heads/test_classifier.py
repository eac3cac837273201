"""The classifier's arithmetic."""

import torch

from ndformer.framework.heads.classifier import Classifier
from ndformer.framework.tokens import TokenSet, Where


def test_logits_are_not_rounded_to_16_bits_under_autocast():
    torch.manual_seed(0)
    head = Classifier(16, 1000)
    torch.nn.init.normal_(head.linear.weight)
    tokens = TokenSet(torch.randn(4, 1, 16), Where(torch.zeros(1, 1, 2)))
    expected = head(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(head(tokens), expected)
