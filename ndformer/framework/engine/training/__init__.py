"""Training: the loop and all that a run must remember to go on as if it had never stopped."""
