"""ARC: what files hold, in numbers (tools/peek.py)."""
