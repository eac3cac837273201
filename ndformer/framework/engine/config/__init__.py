"""Configs: Python files with inheritance, read strictly, and written back as Python."""

from ndformer.framework.errors import ConfigError

__all__ = ["ConfigError"]
