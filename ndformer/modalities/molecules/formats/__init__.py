"""Readers of molecule files: .xyz, .sdf and .mol, .pdb."""
