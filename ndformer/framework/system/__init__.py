"""Utilities for files, processes, devices and memory."""
