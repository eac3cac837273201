"""Backbones: the transformers between tokens and heads."""

from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.transformer import Transformer
from ndformer.moved import old_names

__all__ = ["FactorizedTransformer", "Transformer"]
__getattr__ = old_names(__name__, {"FactorisedTransformer": "FactorizedTransformer"})
