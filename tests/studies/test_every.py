"""What the laboratory holds."""

import pytest

from ndformer.framework.engine.studies.experiment import Results
from ndformer.framework.errors import UnknownNameError
from ndformer.studies import PAPERS, every, find


def test_every_experiment_is_of_a_paper_and_whole():
    assert {experiment.paper for experiment in every().values()} == set(PAPERS)
    for experiment in every().values():
        assert len(set(experiment.rows)) == len(experiment.rows)
        assert set(experiment.published) <= set(experiment.rows), experiment.name
        assert all(set(figures) <= set(experiment.columns) for figures in experiment.published.values())


@pytest.mark.parametrize("name", list(every()))
def test_claims_name_rows_and_columns_that_are_measured(name):
    experiment = find(name)
    full = {row: {s: dict.fromkeys(experiment.columns, 50.0 + s) for s in range(3)} for row in experiment.rows}
    for claim in experiment.claims:
        assert claim.judge(Results(full)).word != "not measured", claim.says


def test_a_name_that_is_none_is_told_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'thesis:table3'"):
        find("thesis:tabel3")
