"""Transforms of molecules."""
