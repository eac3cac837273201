"""The head of grids of colored cells."""
