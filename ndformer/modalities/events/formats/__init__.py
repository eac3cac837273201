"""Readers and writers of event files."""
