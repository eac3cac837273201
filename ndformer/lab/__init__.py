"""Experiments over many runs: comparisons, rankings, extrapolation, verdicts, and the pages that report them."""
