"""docs/results/larger-inputs.md: small sets on larger images (`python -m tests.docs.test_larger_inputs_page`)."""

import pytest

from tests.docs import larger, made
from tests.docs.small_sets import LARGER

PAGE = "docs/results/larger-inputs.md"
PARTS = {f"{folder}_larger": runs for folder, runs in LARGER.items()}


@pytest.mark.parametrize("name", PARTS)
def test_tables_are_those_of_the_results(name: str) -> None:
    again = "`python -m tests.docs.test_larger_inputs_page` writes the page's tables anew"
    assert made.part(PAGE, name) == larger.tables(PARTS[name]), again


@pytest.mark.parametrize("part", PARTS)
def test_images_of_the_training_size_have_the_reported_accuracies(part: str) -> None:
    reported = PARTS[part]
    for name, row in larger.at_size(reported, larger.sides(reported)[0], interpolated=False).items():
        assert row == {seed: reported.values[name][seed] for seed in row}


if __name__ == "__main__":
    for name, reported in PARTS.items():
        made.rewrite(PAGE, name, larger.tables(reported))
