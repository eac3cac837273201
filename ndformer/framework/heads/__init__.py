"""What makes predictions and losses from tokens."""
