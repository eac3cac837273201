"""Randomly generated closed triangle meshes of objects."""
