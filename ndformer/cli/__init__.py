"""Shared parts of the command-line programs: arguments, files, error messages."""
