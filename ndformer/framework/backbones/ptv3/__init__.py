"""Point Transformer V3: attention in windows along space-filling curves."""
