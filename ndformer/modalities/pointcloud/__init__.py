"""Point clouds: reading, augmenting, tokenizing."""
