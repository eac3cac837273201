"""The contract passes what keeps its promises, and says of each broken encoding what is broken, and nothing else."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ndformer.contract import PROMISES, check, trials
from ndformer.contract.building import compiles
from ndformer.contract.circles import circles
from ndformer.contract.forms import backends, forms
from ndformer.contract.places import translation, unplaced
from ndformer.contract.promise import difference
from ndformer.contract.trial import Trial
from ndformer.encodings.alibi import ALiBi
from ndformer.encodings.rope import AxialRoPE
from ndformer.encodings.sincos import Sincos
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from tests.contract.broken import BROKEN, NoPackedRows, WholeRows

ENCODINGS.get("NoPE")  # finds them all
NAMES = sorted(ENCODINGS.module_dict)


QUICK = [promise for promise in PROMISES if promise is not compiles]
NAME = {promise: promise([]).name for promise in PROMISES}


def configured(cfg):
    return lambda **place: build_encoding(cfg, **place)


def verdicts(make, dims=2, promises=PROMISES):
    """In one number of dimensions: name -> sentence, of what is kept or does not apply, and of what is broken."""
    results = [promise([Trial(make, dims)]) for promise in promises]
    broken = {r.name: r.sentence for r in results if r.passed is False}
    return {r.name: r.sentence for r in results if r.name not in broken}, broken


# ------------------------------------------------------------------------------------------------ what keeps them all


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_registered_encodings_keep_every_promise_in_1_to_4_dimensions(name):
    results = list(check(configured(dict(type=name))))
    assert [str(r) for r in results if r.passed is False] == []
    assert len(results) == len(PROMISES) == len({r.name for r in results})
    assert results[0].sentence == "in 1, 2, 3, 4 position dimensions"


VARIANTS = [
    dict(type="Sincos", preset="pape_repo"),
    dict(type="AxialRoPE", preset="pape_repo"),  # in 3-D it says that it is not translation invariant
    dict(type="RoPEMixed", preset="pape_repo"),
    dict(type="LookHere", preset="pape_repo"),
    dict(type="LookHere", fov=45),
    dict(type="RelativeBias", joint=True, reach=3, position_scale=0.5),
    dict(type="PaPE", context=False, activation=False),
    dict(type="PaPE", distance=False),
    dict(type="PaPE", direction=False, init_radius=3),
    dict(type="PaPE", project=False, position_scale=[1, 2, 0.3]),
    dict(type="PaPERI", preset="pape_repo"),
    dict(type="LearnableAbsolute", grid=4, extent=(0, 6)),
    dict(type="LieRE", block=2, normalize=None),
    dict(type="ComRoPE", kind="AP", block=2, normalize="max"),
    dict(type="PoPE", directions="golden", learned=True),
    dict(type="LogCPB", cosine=True),
    dict(type="LearnableAbsolute", grid=3, class_entries=0),
    dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=3)),
    *(dict(type="RotaryND", directions=directions) for directions in ("heads", "interleaved", "golden")),
    dict(type="RotaryND", directions="spiral"),  # of a plane
    dict(type="RotaryND", channels=0.5),
    dict(type="GTA", cameras=0.5),
    [dict(type="PRoPE"), dict(type="ALiBi")],
    [dict(type="Sincos"), dict(type="AxialRoPE"), dict(type="PaPE", m=2), dict(type="ALiBi")],
]


@pytest.mark.slow
@pytest.mark.parametrize("cfg", VARIANTS, ids=str)
def test_options_and_compositions_keep_every_promise(cfg):
    dims = 2 if "directions" in cfg and cfg["directions"] == "spiral" else 3
    _, broken = verdicts(configured(cfg), dims, promises=QUICK)
    assert broken == {}


class GridTable(PositionEncoding):
    """A learned embedding per token of a grid: it works nowhere else."""

    needs_grid = True
    translation_invariant = rotation_invariant = True  # of what is stored as positions it reads nothing

    def __init__(self, dim, heads, position_dims, depth):
        super().__init__(dim, heads, position_dims, depth)
        self.table = nn.Parameter(torch.zeros(6, dim))

    def embed(self, x, state):
        return x + F.pad(self.table, (0, 0, x.shape[1] - 6, 0))


class RowsOnly(ALiBi):
    circular_axes = False

    def tables(self, positions, where):
        return WholeRows(positions)


@pytest.mark.parametrize(
    "make, said",
    [
        (GridTable, {"token permutation": "on a grid", "padded = packed = alone": "never padded"}),
        (RowsOnly, {"dense = sdpa = flex": "not on flex", "pair fits a GPU": "no pair()"}),
        (
            configured(dict(type="NoPE")),
            {"precision of positions": "do not change", "pair = rows": "no bias"},
        ),
        (configured(dict(type="AxialRoPE")), {"cameras move together": "not used", "values and output": "not trans"}),
        (configured(dict(type="RelativeBias")), {"rotation invariance": "integers"}),
    ],
)
def test_what_does_not_apply_is_not_tried_and_that_is_said(make, said):
    kept, broken = verdicts(make, promises=[promise for promise in PROMISES if NAME[promise] in said])
    assert broken == {}
    for name, phrase in said.items():
        assert phrase in kept[name]


@pytest.mark.slow
@pytest.mark.parametrize("make", [GridTable, RowsOnly])
def test_what_works_in_few_layouts_keeps_every_promise(make):
    assert verdicts(make)[1] == {}


@pytest.mark.parametrize("name", ["AxialRoPE", "GTA", "RelativeBias", "PaPE", "Sincos"])
@pytest.mark.parametrize("periods, turns", [([None, 360], 100), ([6.283, None], 2), ([24, 12], 100)])
def test_whole_turns_are_those_of_the_periods_that_are_given(name, periods, turns):
    kept, broken = verdicts(configured(dict(type=name, periods=periods)), promises=[circles])
    assert broken == {}
    assert kept["whole turns on circles"].startswith(f"{turns} turns change nothing")


def test_an_invariance_that_holds_undeclared_is_a_hint():
    class Modest(AxialRoPE):
        translation_invariant = False

    kept, _ = verdicts(Modest, promises=[translation])
    assert "consider translation_invariant = True" in kept["translation invariance"]


# ------------------------------------------------------------------------------------------------- what breaks some


@pytest.mark.parametrize("make, expected", BROKEN)
def test_a_broken_promise_is_named(make, expected):
    _, broken = verdicts(make, dims=2, promises=[promise for promise in PROMISES if NAME[promise] in expected])
    assert broken.keys() == expected.keys()
    for name, phrase in expected.items():
        assert phrase in broken[name]


@pytest.mark.slow
@pytest.mark.parametrize("make, expected", BROKEN)
def test_no_other_promise_is_named(make, expected):
    """In 2-D alone, and without the promises that compile, which take most of the time."""
    others = [promise for promise in PROMISES if NAME[promise] not in expected]
    _, broken = verdicts(make, dims=2, promises=[promise for promise in others if promise not in (compiles, backends)])
    assert broken == {}


def test_a_position_stored_for_a_token_without_one_must_not_reach_the_outputs(monkeypatch):
    monkeypatch.setattr(Where, "real", property(lambda self: None))  # nobody is told, and nobody sets it to 0
    _, broken = verdicts(configured(dict(type="AxialRoPE")), promises=[unplaced])
    assert "the position stored for a token without a position" in broken["unplaced tokens"]


def test_an_encoding_that_does_not_run_gets_one_line():
    class Divides(Sincos):
        def tables(self, positions, where):
            return super().tables(positions / (positions - positions), where)

    (result,) = check(lambda **place: Divides(**place))
    assert not result.passed
    assert "outputs are NaN or infinite (1-D)" in result.sentence


def test_every_promise_is_broken_by_some_encoding():
    shown = {name for _, expected in BROKEN for name in expected}
    assert shown | {"builds and runs"} == set(NAME.values())


# --------------------------------------------------------------------------------------------------- how it is asked


def test_dimensions_that_an_encoding_refuses_are_left_out_with_its_reason():
    make = configured(dict(type="PaPE", position_scale=[1, 2]))
    assert [trial.dims for trial in trials(make)] == [2]
    assert next(check(make)).sentence.startswith(
        "in 2 position dimensions; in 1 it says: position_scale of PaPE must be"
    )


def test_an_encoding_that_refuses_all_dimensions_says_why():
    with pytest.raises(ValueError, match="fov must be 180, 90 or 45, got 17"):
        trials(configured(dict(type="LookHere", fov=17)))


def test_an_error_of_the_encoding_is_kept_for_those_who_want_to_see_it():
    result = forms([Trial(NoPackedRows, 2)])
    assert isinstance(result.error, NotImplementedError)


def test_checking_leaves_the_random_numbers_and_the_trial_as_they_were():
    trial = Trial(configured(dict(type="PaPE", m=2)), 2)
    weights, before = {name: w.clone() for name, w in trial.state_dict().items()}, torch.get_rng_state()
    for promise in QUICK:
        promise([trial])
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(w, weights[name]) for name, w in trial.state_dict().items())


def test_a_difference_is_relative_for_large_values_and_infinite_for_values_that_are_not_numbers():
    def between(a, b):
        return difference(torch.tensor(a), torch.tensor(b))

    assert between([0.5, 1.0], [0.25, 1.0]) == 0.25
    assert between([0.5, 100.0], [0.0, 100.0]) == 0.005
    assert between([-torch.inf, 1.0], [-torch.inf, 1.0]) == 0
    for wrong in (torch.nan, -torch.inf, 1.0):
        assert between([wrong, 1.0], [torch.inf, 1.0]) == torch.inf
    assert between([torch.nan], [torch.nan]) == torch.inf
