"""Generated stand-ins of event datasets, in the datasets' own formats, and simple baselines on them."""
