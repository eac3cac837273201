"""Pictures of event samples and their tokens."""
