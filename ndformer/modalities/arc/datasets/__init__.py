"""ARC: tasks of files, of generators, of both."""
