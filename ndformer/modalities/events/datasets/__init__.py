"""Event cameras: data sets, sample by sample."""
