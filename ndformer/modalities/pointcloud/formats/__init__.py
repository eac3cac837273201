"""Point clouds: files on disk, read and written."""
