"""What every modality and every encoding share; knows none of them by name."""
