"""Transformers by name: what stands between tokens and heads."""
