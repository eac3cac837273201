"""Video: data sets, sample by sample."""
