"""Event cameras: what samples and tokens look like."""
