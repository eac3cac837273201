"""Heads: predictions and losses from tokens."""
