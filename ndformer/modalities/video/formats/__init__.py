"""Readers and writers of videos."""
