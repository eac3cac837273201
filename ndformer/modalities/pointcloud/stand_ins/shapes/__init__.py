"""Closed triangle meshes of things, put together at random."""
