"""Generated stand-ins of driving datasets."""
