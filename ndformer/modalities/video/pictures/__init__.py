"""Pictures of video samples and their tokens."""
