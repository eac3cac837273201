"""Data sets of driving."""
