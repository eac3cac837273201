"""Generated stand-ins of image datasets, in the datasets' own formats, and simple baselines on them."""
