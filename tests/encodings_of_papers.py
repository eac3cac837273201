"""The encodings that papers compare, in each config that once had a file for each of them."""

from pathlib import Path

import pytest

from ndformer.framework.engine.config.shipped import CONFIGS, removed


def with_encodings(*datasets: str) -> list:
    """(config, --encoding) of each encoding on each dataset; None is the config's own, PaPE."""
    found = []
    for dataset in datasets:
        path: Path = CONFIGS / f"{dataset}_pape.py"
        found.append(pytest.param(path, None, id=path.stem))
        replaced = {name: encoding for name, (config, encoding) in removed().items() if config == path.stem}
        found += [pytest.param(path, encoding, id=name) for name, encoding in replaced.items()]
    return found
