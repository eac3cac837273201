"""Grids of colored cells, as in ARC (Abstraction and Reasoning Corpus): inputs, and the outputs of a rule."""
