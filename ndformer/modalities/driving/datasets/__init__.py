"""Datasets of driving."""
