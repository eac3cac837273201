"""Between the backbone and a dense head: maps from tokens."""
