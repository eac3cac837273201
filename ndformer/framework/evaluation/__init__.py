"""Metrics: numbers from predictions, over exactly the whole set."""
