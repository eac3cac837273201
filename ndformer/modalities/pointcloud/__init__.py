"""Point clouds: datasets, file formats, transforms and adapters."""
