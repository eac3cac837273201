"""Transforms of video samples."""
