"""Point clouds: what happens between disk and model."""
