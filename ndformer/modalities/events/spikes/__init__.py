"""Event cameras: when patches spike, and the tokens that spikes become."""
