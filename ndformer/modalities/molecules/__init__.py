"""Molecules: atoms as tokens, with positions in Angstrom."""
