"""Event cameras: datasets, file formats, transforms, spikes and the adapter."""
