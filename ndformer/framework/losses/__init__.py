"""Losses and assignments shared by several heads."""
