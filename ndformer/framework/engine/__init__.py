"""Configs, training and programs on top of mmengine: checked configs, exact schedules, resuming, reports."""

from ndformer.framework import registry  # first: it imports mmengine and restores the host's settings

__all__ = ["registry"]
