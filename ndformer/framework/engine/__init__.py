"""What mmengine lacks: strict configs, exact schedules, reports."""

from ndformer.framework import registry  # first: it imports mmengine as a good guest

__all__ = ["registry"]
