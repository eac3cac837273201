"""Driving: what files hold, in numbers (tools/peek.py)."""
