"""The version of ndformer."""

__version__ = "0.1.0"
