"""The contract of position encodings, one test function per promise.

for result in check(lambda **place: build_encoding(dict(type='PaPE', m=8), **place)):
    print(result)

Each promise is tested in 1 to 4 position dimensions, with small random weights and tokens (trial.py).
ndformer check_encoding runs this from the command line; docs/how-to/new-encoding.md explains the promises.
"""

from collections.abc import Iterator

from ndformer.contract.arithmetic import derivatives, halves
from ndformer.contract.building import compiles, ownership, runs, seeded, shared
from ndformer.contract.circles import circles
from ndformer.contract.forms import backends, captures, forms, padding
from ndformer.contract.places import interpolation, permutation, precision, rotation, translation, unplaced
from ndformer.contract.promise import Promise, Result
from ndformer.contract.trial import Make, Trial
from ndformer.contract.values import cameras, values

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
    circles,
    values,
    cameras,
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
    """Yield one result per promise, or only the first if the encoding does not run.

    `make` takes the arguments of build_encoding() except the config.
    """
    tried = trials(make)
    for promised in PROMISES:
        result = promised(tried)
        yield result
        if promised is runs and not result.passed:
            return


def trials(make: Make) -> list[Trial]:
    """Return a trial for each of 1 to 4 dimensions that the encoding supports; raise its ValueError if it has none."""
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
