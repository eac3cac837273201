"""docs/results/small-datasets.md: the designed comparison (`python -m tests.docs.test_small_datasets_page`)."""

from tests.docs import made
from tests.docs.reported import SPREAD_START, TUNING, Reported, point

PAGE = "docs/results/small-datasets.md"
MAIN = ("NoPE", "LearnableAbsolute(grid=8)", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", SPREAD_START, "PaPECompact")
SIGNS = Reported("hand_signs", MAIN, planned=8, others=5)


def signs_search() -> str:
    return f"\n{SIGNS.search()}\n\n"


def test_the_search_on_hand_signs_is_that_of_the_results() -> None:
    again = "`python -m tests.docs.test_small_datasets_page` writes the page's table anew"
    assert made.part(PAGE, "signs_search") == signs_search(), again


def test_reported_runs_have_the_rate_that_validated_best() -> None:
    assert set(SIGNS.tried) == set(MAIN)
    for run in SIGNS.runs:
        if run["seed"] != TUNING:
            rates = SIGNS.tried[run["encoding"]]
            assert rates[point(run)] == max(rates.values()), run["folder"]


if __name__ == "__main__":
    made.rewrite(PAGE, "signs_search", signs_search())
