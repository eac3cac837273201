"""Video datasets."""
