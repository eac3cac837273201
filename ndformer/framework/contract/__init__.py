"""What every position encoding promises, one function per promise.

for result in check(lambda **place: build_encoding(dict(type='PaPE', m=8), **place)):
    print(result)

Each promise is tried in 1 to 4 position dimensions, with small random weights and tokens (trial.py).
tools/check_encoding.py runs this from the command line; docs/how-to/new-encoding.md says what the promises ask of an
encoding.
"""

from collections.abc import Iterator

from ndformer.framework.contract.arithmetic import derivatives, halves
from ndformer.framework.contract.building import compiles, ownership, runs, seeded, shared
from ndformer.framework.contract.forms import backends, captures, forms, padding
from ndformer.framework.contract.places import interpolation, permutation, precision, rotation, translation, unplaced
from ndformer.framework.contract.promise import Promise, Result, results
from ndformer.framework.contract.trial import Make, Trial

__all__ = ["PROMISES", "Result", "check", "trials"]

PROMISES: list[Promise] = [
    runs,
    padding,
    backends,
    forms,
    captures,
    unplaced,
    permutation,
    translation,
    rotation,
    precision,
    interpolation,
    derivatives,
    halves,
    ownership,
    seeded,
    shared,
    compiles,
]


def check(make: Make) -> Iterator[Result]:
    """One result per promise; one alone where the encoding does not even run. `make` is called as build_encoding is."""
    yield from results(PROMISES, trials(make))


def trials(make: Make) -> list[Trial]:
    """One for each of 1 to 4 dimensions that the encoding takes; its own refusal where it takes none."""
    tried: list[Trial] = []
    refusals: list[ValueError] = []
    for dims in (1, 2, 3, 4):
        try:
            tried.append(Trial(make, dims))
        except ValueError as refusal:
            refusals.append(refusal)
    if not tried:
        raise refusals[0]
    return tried
