"""Many runs side by side: comparisons, extrapolation, and their tables."""
