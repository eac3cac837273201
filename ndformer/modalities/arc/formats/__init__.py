"""ARC: files of tasks, and the canvas that a grid is laid on."""
