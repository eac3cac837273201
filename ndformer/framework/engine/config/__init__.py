"""Configs: Python files that inherit, read strictly and written as Python again."""
