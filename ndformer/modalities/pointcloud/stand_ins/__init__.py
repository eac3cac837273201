"""Generated stand-ins of point cloud datasets, in the datasets' own formats, and simple baselines on them."""
