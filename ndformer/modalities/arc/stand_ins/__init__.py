"""ARC: generated tasks in the corpus' own format, and a simple baseline on them."""
