"""Losses that several heads share, and who learns from what."""
