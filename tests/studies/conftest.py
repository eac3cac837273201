"""What tests of experiments share."""

import importlib

import pytest

from ndformer.framework.registry import ENCODINGS


@pytest.fixture
def shuffled():
    """The control of shuffled places, which nobody else knows afterwards."""
    known = dict(ENCODINGS.all())
    kind = importlib.import_module("ndformer.studies.shuffled").Shuffled
    ENCODINGS.module_dict["Shuffled"] = kind
    yield kind
    ENCODINGS.module_dict.clear()
    ENCODINGS.module_dict.update(known)
