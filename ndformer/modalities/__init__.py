"""One folder per modality: reading, augmenting and tokenizing, all that knows what the data is."""
