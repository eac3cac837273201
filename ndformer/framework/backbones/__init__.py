"""Transformers by name: what stands between tokens and heads."""

from ndformer.framework.transformer import Transformer

__all__ = ["Transformer"]
