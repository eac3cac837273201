"""Drawing of encodings, runs, samples and answers."""
