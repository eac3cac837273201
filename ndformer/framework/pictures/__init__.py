"""All drawing: of encodings, of runs, of samples, and the cards that answers are drawn on."""
