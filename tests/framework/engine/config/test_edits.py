"""Random edits of configs end in an error before data is read, or train (more: tests/soak/config_edits.py)."""

import math

import pytest

from tests.soak.config_edits import Edit, bases, failed, meant, out_of_range, series, trained


def test_random_edits_of_shipped_configs_end_in_a_sentence_or_make_sense():
    told = series(bases(("cifar10_pape", "coco_vitt_pape", "ucf101_pape")), 60, seed=0)
    assert failed(told) == []
    assert told["refused by the checker"] > 20
    assert told["taken, as far as the data"] > 5


def test_random_edits_of_a_run_end_in_a_sentence_or_train():
    told = trained(25, seed=0)
    assert failed(told) == []
    assert told["refused by the checker"] > 5
    assert told["trained"] > 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, -0.5, 1e30, 10**30])
def test_the_series_sees_nonsense_and_tracebacks(value):
    assert out_of_range(Edit("number", ("optimizer", "lr"), value))
    assert not out_of_range(Edit("number", ("optimizer", "lr"), 0.5))
    with pytest.raises(ZeroDivisionError) as caught:
        _ = value / 0
    assert not meant(caught.value)
