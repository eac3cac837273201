"""Event cameras: what happens between disk and model."""
