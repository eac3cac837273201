"""What the laboratory holds."""

import pytest

from ndformer.framework.errors import UnknownNameError
from ndformer.lab.experiment import Results
from ndformer.studies import PAPERS, every, find

NOTHING_IS_LEARNT = {
    *("pape:equations", "pape:table4", "pape:table8"),
    *("sape2:equations", "sape2:table3", "sincos2d:note"),
}
LOOKED_INTO = {  # embeddings or attention, of which there is none without positions: untrained ones are beside them
    *("pape:figure2", "pape:figure3", "sape2:figure4"),
    *("thesis:table2", "thesis:figure5", "thesis:pretraining"),
}


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
        assert claim.judge(Results(full)).word != "not measured", claim.text


@pytest.mark.parametrize(
    "name", [name for name, e in every().items() if "small" in e.scales and name not in NOTHING_IS_LEARNT]
)
def test_wherever_positions_are_learnt_from_there_are_controls(name):
    """Labels at random, positions shuffled among tokens, and none at all."""
    experiment = find(name)
    words = [*experiment.rows, *experiment.columns.values()]
    absent = ("untrained", "before", "as drawn") if name in LOOKED_INTO else ("NoPE", "None")
    for controls in (("labels at random",), ("places shuffled",), absent):
        assert any(control in word for control in controls for word in words), controls


def test_a_name_that_is_none_is_told_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'thesis:table3'"):
        find("thesis:tabel3")


def test_a_figure_of_a_paper_leads_to_what_shows_it():
    with pytest.raises(UnknownNameError, match="'pape:figure1': Figure 1 is shown by pape:extrapolation"):
        find("pape:figure1")
    with pytest.raises(UnknownNameError, match="Figure 2 is sample images of the data of Table 1, with nothing to"):
        find("thesis:figure2")
    with pytest.raises(UnknownNameError, match="'mine:first'. Known: pape:equations, "):
        find("mine:first")
