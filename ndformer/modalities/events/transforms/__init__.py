"""Transforms of event samples."""
