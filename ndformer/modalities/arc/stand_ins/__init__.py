"""Generated stand-in of ARC in the corpus' own format, and simple baselines on it."""
