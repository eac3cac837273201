"""Event cameras: what files hold, in numbers (tools/peek.py)."""
