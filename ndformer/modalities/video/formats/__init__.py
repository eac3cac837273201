"""Video: files on disk, read and written."""
