"""Point clouds: what files hold, in numbers (tools/peek.py)."""
