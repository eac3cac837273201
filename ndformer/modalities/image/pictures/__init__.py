"""Pictures of image samples and their tokens."""
