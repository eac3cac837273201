"""Quantities: which value is better, and how values are written."""

import math

import pytest

from ndformer.framework.errors import ConfigError
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.evaluation.metric import Metric, find_quantity, main_metric, shipped_quantity
from ndformer.framework.quantity import Quantity

SHARE, PIXELS, ENERGY = (
    Quantity.create("higher", "share"),
    Quantity.create("lower", "px", 2),
    Quantity.create("lower", "Ha"),
)


@pytest.mark.parametrize(
    "quantity, values, best",
    [
        (SHARE, [0.5, 0.9, 0.9], 1),
        (PIXELS, [5.3, 0.4, 0.4, 0.6], 1),
        (SHARE, [math.nan, 0.1], 1),
        (PIXELS, [math.nan, 9.0, math.nan], 1),
        (PIXELS, [math.nan, math.nan], 0),
    ],
)
def test_the_best_value_is_the_first_of_equals_and_never_nan(quantity, values, best):
    """Issue 44.1: NaN in the first epoch was the best one for ever."""
    assert quantity.best(values) == best


def test_a_gain_is_positive_where_the_value_is_better():
    assert SHARE.gain(0.9, base=0.8) == pytest.approx(0.1)
    assert PIXELS.gain(0.4, base=0.6) == pytest.approx(0.2)


def test_shares_are_written_in_percent_and_others_in_their_unit():
    assert (SHARE.text(0.945), SHARE.symbol, SHARE.log_text(0.945)) == ("94.50", "%", "0.9450")
    assert (PIXELS.text(0.4512), PIXELS.symbol, PIXELS.log_text(0.4512)) == ("0.45", "px", "0.45 px")
    assert (ENERGY.text(-0.0016, "+"), ENERGY.label("error"), SHARE.label("top5")) == (
        "-0.0016",
        "error in Ha",
        "top5 in %",
    )
    assert Quantity.create("higher", "").label("R2") == "R2"


def test_a_value_that_is_small_in_its_unit_is_not_written_as_zero():
    error = Quantity.create("lower", "C m")
    assert (error.text(1.234e-30), error.log_text(1.234e-30)) == ("1.23e-30", "1.23e-30 C m")
    assert (error.text(-1.234e-30, "+"), error.text(0.0), error.text(0.00012)) == ("-1.23e-30", "0.0000", "0.0001")
    assert (SHARE.text(1e-9), Quantity.create("higher", "").text(1e-9)) == ("0.00", "0.0000")


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        dict(better="higher"),
        dict(better="max", unit="", decimals=2),
        dict(better="lower", unit="\n", decimals=2),
        dict(better="lower", unit="", decimals=True),
        dict(better="lower", unit="x" * 99, decimals=1),
    ],
)
def test_what_a_file_says_of_a_quantity_is_checked(value):
    with pytest.raises(ValueError, match=r"^(a quantity|`\w+` of a metric) "):
        Quantity.parse(value)


def test_a_value_has_the_quantity_of_the_metric_that_declares_it():
    both = [dict(type="CocoMetric"), dict(type="NuScenes")]
    assert main_metric(both) == ("mAP", SHARE)
    assert find_quantity(both, "mATE") == Quantity("lower", "m", 3)
    assert find_quantity(both, "NDS") == SHARE
    assert find_quantity(both, "F1_threshold").unit == ""
    assert find_quantity([dict(type="PerTask", metric=dict(type="Accuracy"))], "one/top5") == SHARE
    assert main_metric([dict(type="PerTask", metric=dict(type="MeanIoU"))]) == ("mIoU", SHARE)
    assert shipped_quantity("one/accuracy") == SHARE
    assert shipped_quantity("error").unit == ""


@pytest.mark.parametrize("lacks", [["better"], ["unit"], ["better", "unit"]])
def test_a_metric_that_does_not_say_which_values_are_better_is_refused(lacks):
    """Issue 44.1: the worst checkpoint was kept where lower values are better."""
    declared = {key: value for key, value in dict(better="lower", unit="px").items() if key not in lacks}
    kind = type("Error", (Metric,), dict(main="error", **declared))
    with pytest.raises(ConfigError, match=f"^Error is expected to declare .* got no {' and no '.join(lacks)}. Write"):
        kind().quantity("error")


def test_every_shipped_metric_declares_it():
    assert Accuracy().quantity("accuracy") == SHARE
