"""Video: what samples and tokens look like."""
