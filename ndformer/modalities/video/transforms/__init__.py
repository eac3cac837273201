"""Video: what happens between disk and model."""
