"""Event cameras: reading, augmenting, tokenizing."""
