"""Backbones: the transformers between tokens and heads."""

from ndformer.framework.backbones.factorised import FactorisedTransformer
from ndformer.framework.transformer import Transformer

__all__ = ["FactorisedTransformer", "Transformer"]
