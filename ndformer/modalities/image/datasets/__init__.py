"""Images: data sets, sample by sample."""
