"""Event cameras: generated toy worlds in the data sets' own formats, and simple baselines on them."""
