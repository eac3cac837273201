"""Pictures of driving samples and their tokens."""
