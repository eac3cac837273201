"""Generated stand-ins of datasets of molecules."""
