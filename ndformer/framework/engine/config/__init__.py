"""Configs: Python files that inherit, read strictly and written as Python again."""

from ndformer.framework.errors import ConfigError

__all__ = ["ConfigError"]
