"""Fixtures for tests of experiments."""

import importlib

import pytest

from ndformer.framework.registry import ENCODINGS


@pytest.fixture
def shuffled():
    """Register the control of shuffled positions, for one test."""
    known = dict(ENCODINGS.all())
    kind = importlib.import_module("ndformer.studies.shuffled").Shuffled
    ENCODINGS.module_dict["Shuffled"] = kind
    yield kind
    ENCODINGS.module_dict.clear()
    ENCODINGS.module_dict.update(known)
