"""Generated stand-ins for driving data."""
