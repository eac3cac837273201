"""Point cloud datasets."""
