"""Attention biases: terms added to attention logits."""

from ndformer.framework.bias.base import Bias, PositionBias, SumBias
from ndformer.framework.bias.parabolas import IsotropicBias, QuadraticBias, SeparableBias
from ndformer.framework.bias.pointwise import ConeBias, DistanceBias, TableBias

__all__ = [
    "Bias",
    "ConeBias",
    "DistanceBias",
    "IsotropicBias",
    "PositionBias",
    "QuadraticBias",
    "SeparableBias",
    "SumBias",
    "TableBias",
]
