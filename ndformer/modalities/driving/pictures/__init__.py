"""Boxes, points and predictions, drawn."""
