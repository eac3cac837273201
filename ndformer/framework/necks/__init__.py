"""Necks: feature maps from tokens, between the backbone and a dense head."""
