"""Videos: datasets, exact decoding, transforms and the adapter."""
