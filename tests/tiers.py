"""Which cases `make test` runs: every promise, every value of each parameter, but not every combination of values.

`make test-all` also runs the other cases, and the tests that are marked slow (pytest --rest).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pytest

FEW = 8  # cases of a test that always run


def everyday(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items that `make test` runs, in their order."""
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            by_test[item.nodeid.partition("[")[0]].append(item)
    chosen = {item for cases in by_test.values() for item in covering(cases)}
    return [item for item in items if item in chosen]


def covering(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Choose cases in which each value of each parameter occurs at least once; all of them where they are few."""
    values = [frozenset(_values(case)) for case in cases]
    if len(cases) <= FEW or max(map(len, values)) < 2:
        return cases
    missing = set().union(*values)
    chosen: list[int] = []
    while missing:
        # the case with most new values; among equals the one most unlike the last chosen ones, so that values mix
        new = [len(value & missing) for value in values]
        max_new = max(new)
        best_cases = [i for i, count in enumerate(new) if count == max_new]
        best = min(best_cases, key=lambda i: _shared(values, chosen, i))
        missing -= values[best]
        chosen.append(best)
    return [cases[i] for i in sorted(chosen)]


def _shared(values: Sequence[frozenset[tuple[str, str]]], chosen: list[int], i: int) -> int:
    return sum(len(values[i] & values[j]) for j in chosen[-8:])


def _values(case: pytest.Item) -> Iterable[tuple[str, str]]:
    callspec = getattr(case, "callspec", None)
    return [] if callspec is None else ((name, repr(value)[:200]) for name, value in callspec.params.items())
