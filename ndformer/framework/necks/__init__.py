"""Between the backbone and a dense head: maps from tokens."""

from ndformer.framework.registry import Registry

NECKS = Registry("neck", "ndformer.framework.necks")
