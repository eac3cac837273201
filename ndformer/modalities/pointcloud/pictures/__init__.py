"""Point clouds: what samples and tokens look like."""
