"""Runs on the tiny data of tests/soak; a module with `no_pictures` draws none, which takes longer than the run."""

import pytest

from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import DATASETS
from tests.soak.tiny import register


@pytest.fixture(scope="module", autouse=True)
def squares():
    register()
    yield
    DATASETS.module_dict.pop("SoakSquares", None)


@pytest.fixture(scope="module")
def no_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "curves", lambda *_: None)
        patch.setattr(report, "confusion_matrix", lambda *_: None)
        yield
