"""Images: files on disk, read and written."""
