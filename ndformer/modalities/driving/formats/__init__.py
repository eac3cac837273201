"""Readers and writers of driving files: tables, scans, labels."""
