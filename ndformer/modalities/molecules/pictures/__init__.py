"""Pictures of molecules."""
