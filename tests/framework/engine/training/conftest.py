"""Runs on the tiny data of tests/soak."""

import pytest

from ndformer.framework.registry import DATASETS
from tests.soak.tiny import register


@pytest.fixture(scope="module", autouse=True)
def squares():
    register()
    yield
    DATASETS.module_dict.pop("SoakSquares", None)
