"""Spiking patches of event cameras, and the tokens made of them."""
