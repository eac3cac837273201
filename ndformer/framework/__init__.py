"""Shared parts of the library: tokens, attention, models and training; no modality or encoding is imported by name."""
