"""nuScenes: its index, its samples and its metric."""
