"""ARC datasets: tasks from files, from generators, or from both."""
