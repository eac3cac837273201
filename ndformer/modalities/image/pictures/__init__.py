"""Images: what samples and tokens look like."""
