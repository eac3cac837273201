"""Transforms of image samples."""
