"""Grids of coloured cells, as in ARC (Abstraction and Reasoning Corpus): inputs, and the outputs that a rule makes."""
