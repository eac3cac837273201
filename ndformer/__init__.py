"""ndformer: one transformer for tokens with positions, whatever they come from."""

__version__ = "0.1.0"
