"""nuScenes: dataset, metric and submission files."""
