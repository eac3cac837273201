"""Importers of the weights of other projects: one function for each layout of names, registered by importer()."""
