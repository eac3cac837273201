"""ARC task files, and the canvas that contains a grid."""
