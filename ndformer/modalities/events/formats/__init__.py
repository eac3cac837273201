"""Event cameras: files on disk, read and written."""
