"""Images as patches."""
