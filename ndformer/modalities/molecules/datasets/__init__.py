"""Datasets of molecules and their properties."""
