"""The best epoch of a run: ties, errors, NaN, and early stopping."""

import math

import pytest

from ndformer.framework.engine.training.history import History
from ndformer.framework.evaluation.metric import main_metric

ACCURACY = [dict(type="Accuracy")]
ERROR = [dict(type="RegressionError")]


def best_epochs(metrics: list[dict[str, str]], values: list[float]) -> list[int]:
    """Return the epochs, from 1, after which a checkpoint is kept as the best."""
    history, best = History(metrics, None), []
    for epoch, value in enumerate(values, 1):
        if history.is_best({main_metric(metrics)[0]: value}):
            best.append(epoch)
        history.epochs.append({history.main: value})
    return best


@pytest.mark.parametrize(
    "metrics, values, expected",
    [
        (ACCURACY, [0.5, 0.4, 0.6, 0.6, 0.5, 0.6], [1, 3, 4, 6]),
        (ERROR, [5.0, 6.0, 4.0, 4.0, 4.5], [1, 3, 4]),
        (ACCURACY, [math.nan, 0.1, math.nan, 0.1], [1, 2, 4]),
    ],
)
def test_the_latest_of_equal_epochs_is_the_best(metrics, values, expected) -> None:
    """Six validation images gave every epoch 100 %, and the model of the first epoch was kept."""
    assert best_epochs(metrics, values) == expected


def test_equal_epochs_are_no_improvement_for_early_stopping() -> None:
    history = History(ACCURACY, patience=2)
    for value, stops in [(0.5, False), (0.5, False), (0.5, True)]:
        history.epochs.append({"accuracy": value})
        assert history.should_stop() is stops
