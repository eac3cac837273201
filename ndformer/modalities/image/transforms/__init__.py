"""Images: what happens between disk and model."""
