"""Point clouds: data sets, sample by sample."""
