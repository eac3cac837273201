"""Transforms of grid pairs."""
