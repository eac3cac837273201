"""Regression: standardization, references for extensive targets, readouts, losses, answers and metrics."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.answers.values import Values
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.evaluation.regression import RegressionError
from ndformer.framework.heads.regressor import Regressor
from ndformer.framework.pictures.runs import parity
from ndformer.framework.quantity import split_unit
from ndformer.framework.tokens import TokenSet, Where

COUNTS = np.array([[0, 4, 1], [0, 2, 3], [0, 1, 1], [0, 6, 2], [0, 2, 2]])


class Table(Dataset):
    """Five samples with composition and two targets, one of them unknown."""

    classes = ["U0 (meV)", "gap (meV)"]

    def __init__(self) -> None:
        self.targets = np.array([[-38.6, 1.0], [-115.9, 2.0], [-38.9, 4.0], [-79.0, np.nan], [-76.9, 1.0]])

    def __len__(self) -> int:
        return 5

    def sample(self, epoch: int, i: int) -> dict[str, Any]:
        return dict(data_sample=dict(targets=self.targets[i], composition=COUNTS[i], path=f"{i}"))


def fitted(readout: Any = ("sum", "mean"), **options: Any) -> Regressor:
    torch.manual_seed(0)
    head = Regressor(8, classes=2, readout=readout, **options)
    head.fit(Table())
    torch.nn.init.normal_(head.linear.weight)
    return head


def samples() -> list[dict[str, Any]]:
    return [Table().sample(0, i)["data_sample"] for i in range(5)]


def tokens(valid: bool = True) -> TokenSet:
    mask = torch.arange(7) < torch.tensor([5, 7, 2, 1, 4])[:, None]
    x = torch.randn(5, 7, 8, generator=torch.Generator().manual_seed(1))
    return TokenSet(x, Where(torch.zeros(5, 7, 3), valid=mask if valid else None))


def test_fit_is_least_squares_and_standardization():
    head, targets = fitted(), Table().targets
    A = COUNTS[:, 1:].astype(float)  # no sample has part 0
    reference = np.linalg.solve(A.T @ A, A.T @ targets[:, 0])  # normal equations
    assert head.reference[0, :4].tolist() == pytest.approx([0, *reference, 0], rel=1e-9)
    assert not head.reference[1].any()  # a mean has no references
    left = targets[:, 0] - A @ reference
    known = targets[[0, 1, 2, 4], 1]
    assert head.mean.tolist() == pytest.approx([left.mean(), known.mean()])
    assert head.spread.tolist() == pytest.approx([left.std(), known.std()])


def test_targets_without_a_spread_keep_their_scale_and_are_named():
    """The standard deviation of seven times 0.1 is 1e-17, and that of an exact fit 1e-14."""
    table, head = Table(), Regressor(8, classes=2, readout=("sum", "mean"))
    table.targets = np.stack([COUNTS @ [0, -0.6, -37.9], np.full(5, 0.1)], axis=1)
    with pytest.warns(UserWarning, match="nothing is left to learn") as caught:
        head.fit(table)
    assert [str(warning.message).partition(" in the")[0] for warning in caught] == [
        "the target U0 (meV) is explained by the counts of parts",
        "the target gap (meV) is constant",
    ]
    assert head.spread.tolist() == [1, 1]
    for values in (np.full(7, 0.1), -1e6 + np.array([0.0, 1e-9, 0, 0, 0, 0, 0])):
        errors = evaluated(RegressionError(), [answer([v + 1], [v], [1.0]) for v in values.tolist()])
        assert errors == pytest.approx(dict(MAE=1, RMSE=1, R2=0))


def test_predictions_invert_targets_and_checkpoints_keep_the_numbers():
    head, other = fitted(), Regressor(8, classes=2, readout=("sum", "mean"))
    other.load_state_dict(head.state_dict())
    standardized = head.targets(samples(), torch.device("cpu"))
    other.forward = lambda tokens: standardized.nan_to_num()  # pyright: ignore[reportAttributeAccessIssue]
    values = np.stack([cast(Values, answer).values.numpy() for answer in other.predict(tokens(), samples())])
    truth = Table().targets
    assert np.allclose(values[np.isfinite(truth)], truth[np.isfinite(truth)], rtol=1e-6)


def test_readouts_are_sums_and_means_of_real_tokens_or_the_first_token():
    head, inputs = fitted(("sum", "mean")), tokens()
    first = fitted("class")
    assert inputs.where.valid is not None
    for row in range(5):
        y = head.linear(torch.nn.functional.gelu(head.hidden(inputs.features[row])))[inputs.where.valid[row]].detach()
        expected = [float(y[:, 0].sum()), float(y[:, 1].mean())]
        assert head(inputs)[row].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert first(inputs)[row].tolist() == pytest.approx(y[0].tolist(), rel=1e-5, abs=1e-6)


def test_tokens_without_a_position_add_nothing_to_sums_and_means():
    head, x = fitted(), torch.randn(2, 5, 8)
    placed = torch.arange(5)[None] > 1  # after a class token and a register
    expected = head(TokenSet(x[:, 2:], Where(torch.zeros(2, 3, 3))))
    torch.testing.assert_close(head(TokenSet(x, Where(torch.zeros(2, 5, 3), placed=placed))), expected)


@pytest.mark.parametrize("name", ["l1", "l2", "huber"])
def test_losses_average_over_known_targets(name):
    head, inputs = fitted(loss=name), tokens()
    targets = head.targets(samples(), torch.device("cpu"))
    assert targets.isnan().sum() == 1
    loss = head.loss(inputs, targets)["loss"]
    d = (head(inputs) - targets).detach().double()[targets.isfinite()].abs()
    slow = dict(l1=d, l2=d**2, huber=torch.where(d < 1, d**2 / 2, d - 0.5))[name]
    assert loss.item() == pytest.approx(slow.mean().item(), rel=1e-5)
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in head.parameters())


def test_parts_unknown_to_the_training_data_are_named():
    sulfur = [sample | dict(composition=np.pad(sample["composition"], (0, 14))) for sample in samples()]
    sulfur[0]["composition"][16] = 1
    with pytest.warns(UserWarning, match=r"^0 has parts .*\(atomic numbers 16\): its prediction is unreliable"):
        fitted().predict(tokens(), sulfur)


def test_it_starts_at_the_mean():
    head = Regressor(8, classes=2, readout=("sum", "mean"))
    head.fit(Table())
    predicted = cast(Values, head.predict(tokens(), samples())[0]).values
    expected = head.mean[0] + 4 * head.reference[0, 1] + head.reference[0, 2]
    assert predicted.tolist() == pytest.approx([float(expected), float(head.mean[1])])


def test_mistakes_are_explained():
    with pytest.raises(ValueError, match="one for each of 2 targets, got 1"):
        Regressor(8, classes=2, readout=["sum"])
    with pytest.raises(DataError, match="must be 3 numbers for each sample"):
        Regressor(8, classes=3).fit(Table())
    table = Table()
    table.targets[:, 1] = np.nan
    with pytest.raises(DataError, match=r"the target gap \(meV\) is unknown for all"):
        Regressor(8, classes=2).fit(table)


def answer(values: list[float], truth: list[float] | None, spread: Any = (1284.0, 1.5)) -> Values:
    sample = dict(path="a.xyz") | ({} if truth is None else dict(targets=np.array(truth)))
    return Values(sample=sample, values=torch.tensor(values).double(), spread=torch.tensor(spread).double())


def test_answers_have_units_and_suitable_decimals():
    names = ["gap (meV)", "mu (D)"]
    assert answer([6857.123, 2.67891], None).words(names, 3, 0.3) == "gap 6857 meV  mu 2.679 D"
    assert answer([6857.1, 2.6789], [6800, np.nan]).rows(names) == [
        {"path": "a.xyz", "gap (meV)": 6857.0, "true gap (meV)": 6800.0, "mu (D)": 2.679}
    ]
    assert answer([6857.1, 2.6789], [6800, 2.0]).verdict(names, 0) == "mu off by 0.679 D"
    assert answer([6857.1, 2.6789], None).verdict(names, 0) == "predicted"
    assert split_unit("Cv (cal/mol/K)") == ("Cv", "cal/mol/K")
    assert split_unit("score") == ("score", "")


def test_values_of_small_units_are_written_to_a_thousandth_of_their_spread():
    dipole = answer([6.2123456e-30, 2.5], [6.2e-30, 2.0], spread=(3e-30, 1.5))
    (row,) = dipole.rows(["mu (C m)", "x"])
    assert row["mu (C m)"] == pytest.approx(6.2123456e-30, rel=1e-3)
    assert dipole.words(["mu (C m)", "x"], 2, 0) == "mu 6.212e-30 C m  x 2.500"
    assert answer([0.0], None, spread=(3e-30,)).text(0, 0.0) == "0.000000000000"


def test_a_unit_that_is_too_long_is_named_with_its_target():
    RegressionError(targets=["affinity (log10 of mol per litre)"])
    with pytest.raises(ConfigError, match=r"40 characters at most, got 'a \(x{41}\)'"):
        RegressionError(targets=[f"a ({'x' * 41})"])


def evaluated(metric: RegressionError, answers: list[Values]) -> dict[str, float]:
    metric.take({}, answers)
    return metric.compute_metrics(metric.results)


def test_metrics_against_their_definitions(tmp_path):
    rng = np.random.default_rng(0)
    truth, predicted = rng.normal(size=(2, 40, 2)) * [1284, 1.5]
    truth[3, 1] = np.nan
    metric = RegressionError(targets=["gap (meV)", "mu (D)"])
    found = evaluated(metric, [answer(p.tolist(), t.tolist()) for p, t in zip(predicted, truth)])
    maes = []
    for t, name in enumerate(("gap", "mu")):
        pairs = [(a, b) for a, b in zip(truth[:, t], predicted[:, t]) if a == a]
        middle = sum(a for a, _ in pairs) / len(pairs)
        maes.append(sum(abs(a - b) for a, b in pairs) / len(pairs))
        squares = sum((a - b) ** 2 for a, b in pairs)
        assert found[f"MAE_{name}"] == pytest.approx(maes[-1], rel=1e-6)
        assert found[f"RMSE_{name}"] == pytest.approx((squares / len(pairs)) ** 0.5, rel=1e-6)
        assert found[f"R2_{name}"] == pytest.approx(1 - squares / sum((a - middle) ** 2 for a, _ in pairs), rel=1e-6)
    assert found["standardized_MAE"] == pytest.approx((maes[0] / 1284 + maes[1] / 1.5) / 2, rel=1e-6)
    assert metric.quantity("MAE_gap").unit == "meV"
    assert metric.quantity("R2_mu").better == "higher"
    assert metric.views(tmp_path, []) is None  # samples without a composition have no size
    assert (tmp_path / "parity.png").stat().st_size > 1000
    assert not (tmp_path / "error_by_size.png").exists()


@pytest.mark.parametrize("count", [2, 5, 40])
def test_few_samples_are_points_that_are_all_in_the_picture(tmp_path, count):
    """A histogram of few samples has one count in each cell, so that all cells have one color."""
    truth = np.linspace(0, 1, count)[:, None]
    parity(tmp_path / "a.png", truth, truth - 5, ["gap (meV)"])  # far below all true values
    with Image.open(tmp_path / "a.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0]) > 60  # of points
    assert 20 < blue.sum() < 0.2 * blue.size
    assert (pixels.min(-1) > 230).mean() > 0.5  # the paper


def test_of_many_samples_those_outside_are_at_the_edge(tmp_path):
    truth = np.linspace(0, 1, 2000)[:, None]
    colored = []
    for name, shift in (("inside.png", 0.0), ("outside.png", 1000.0)):
        parity(tmp_path / name, truth, truth + shift, ["gap (meV)"])
        with Image.open(tmp_path / name) as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(int)
        colored.append(int((np.ptp(pixels, axis=-1) > 30).sum()))  # pixels that are not gray
    assert min(colored) > 50


def test_errors_by_size_are_the_means_of_groups(tmp_path):
    rng = np.random.default_rng(0)
    parts = rng.integers(3, 30, 200)
    truth, predicted = rng.normal(size=(2, 200, 2))
    truth[parts == parts.max(), 0] = np.nan
    metric = RegressionError(targets=["gap (meV)", "mu (D)"])
    answers = [answer(p.tolist(), t.tolist()) for p, t in zip(predicted, truth)]
    for one, count in zip(answers, parts):
        cast(dict[str, Any], one.sample)["composition"] = np.array([0, count - 1, 1])
    evaluated(metric, answers)
    table = metric.views(tmp_path, [])
    assert table is not None
    head, *rows = [line.split() for line in table.splitlines()]
    assert head == ["parts", "samples", "MAE", "gap", "(meV)", "MAE", "mu", "(D)"]
    assert 2 <= len(rows) <= 8
    last = int(parts.min()) - 1
    for name, count, *means in rows:
        first, _, end = name.partition("-")
        assert int(first) == last + 1
        last = int(end or first)
        inside = [i for i in range(200) if int(first) <= parts[i] <= last]
        assert int(count) == len(inside)
        for t in range(2):
            errors = [abs(predicted[i, t] - truth[i, t]) for i in inside if truth[i, t] == truth[i, t]]
            assert float(means[t]) == pytest.approx(sum(errors) / len(errors), rel=1e-3)
    assert last == parts.max()
    assert (tmp_path / "error_by_size.png").stat().st_size > 1000


def test_samples_of_one_size_have_no_table():
    metric = RegressionError(targets=["gap (meV)"])
    answers = [answer([1.0], [float(i)], [1.0]) for i in range(9)]
    for one in answers:
        cast(dict[str, Any], one.sample)["composition"] = np.array([0, 4])
    evaluated(metric, answers)
    assert metric.views(None, []) is None


def test_one_target_has_plain_names():
    config = [dict(type="RegressionError", targets=["gap (meV)"])]
    name, quantity = main_metric(config)
    assert (name, quantity.unit, quantity.better) == ("MAE", "meV", "lower")
    found = evaluated(
        RegressionError(targets=["gap (meV)"]), [answer([2.0], [1.0], [1.0]), answer([2.0], [4.0], [1.0])]
    )
    assert found == pytest.approx(dict(MAE=1.5, RMSE=2.5**0.5, R2=1 - 5 / 4.5))


def test_a_metric_needs_truth_and_the_names_of_all_targets():
    with pytest.raises(DataError, match="a.xyz has no true value"):
        evaluated(RegressionError(), [answer([1.0], None, [1.0])])
    with pytest.raises(ConfigError, match="must have the names of 2 targets, got 1"):
        evaluated(RegressionError(), [answer([1.0, 2.0], [1.0, 2.0])])


def test_targets_whose_names_differ_in_the_unit_only_are_refused():
    for names in (["gap (meV)", "gap (eV)"], ["gap (meV)", "gap (meV)"]):
        with pytest.raises(ConfigError, match="differ without their units, got 'gap' more than once in"):
            RegressionError(targets=names)


@pytest.mark.parametrize("readout", ["sum", "mean", "class"])
def test_numbers_of_tokens_are_not_rounded_to_16_bits_under_autocast(readout):
    head, given = fitted(readout), tokens()
    head.hidden = cast(Any, torch.nn.Identity())
    expected = head(given)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(head(given), expected)
