"""Generated stand-ins of video datasets, in the datasets' own formats, and simple baselines on them."""
