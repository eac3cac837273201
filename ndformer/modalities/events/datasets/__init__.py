"""Event camera datasets."""
