"""All experiments: claims, controls, names, and the tables and figures of the papers that they reproduce."""

import re
from pathlib import Path

import pytest

from ndformer.framework.errors import UnknownNameError
from ndformer.lab.experiment import Results
from ndformer.studies import PAPERS, every, find, paper_experiments
from ndformer.studies.contents import CONTENTS, NOT_MEASURED

TEXTS = Path(__file__).parents[3] / "shared" / "papers"
FILES = {
    "pape": "pape.txt",
    "sape2": "sape2.txt",
    "sincos2d": "2d-sincos.txt",
    "thesis": "position-embeddings-thesis.txt",
    "vitarc": "vitarc-excerpt.txt",
}
CAPTION = re.compile(r"^\W*(Table|Figure) (\d+(?:\.\d+)?)[.:] ", re.MULTILINE)
WITHOUT_TRAINING = {
    *("pape:equations", "pape:table4", "pape:table8"),
    *("sape2:equations", "sape2:table3", "sincos2d:note"),
}
OF_BOXES = {"rectangles:cells"}
OF_A_COMPARISON = {"pape:fashion", "pape:fashion-larger", "pape:extrapolation"}  # as designed there, with NoPE alone
OF_EMBEDDINGS = {  # or of attention: there is none without positions, so untrained ones are the control
    *("pape:figure2", "pape:figure3", "sape2:figure4"),
    *("thesis:table2", "thesis:figure5", "thesis:pretraining"),
}


@pytest.mark.parametrize("name", list(every()))
def test_rows_columns_and_claims_of_an_experiment_are_consistent(name):
    experiment = find(name)
    assert experiment.paper in PAPERS
    assert len(set(experiment.rows)) == len(experiment.rows)
    assert set(experiment.published) <= set(experiment.rows)
    assert all(set(figures) <= set(experiment.columns) for figures in experiment.published.values())
    assert set(experiment.shows) <= set(CONTENTS.get(experiment.paper, ()))
    full = {row: {s: dict.fromkeys(experiment.columns, 50.0 + s) for s in range(3)} for row in experiment.rows}
    for claim in experiment.claims:
        assert claim.judge(Results(full)).word != "not measured", claim.text


@pytest.mark.parametrize(
    "name", [name for name, e in every().items() if "small" in e.scales and name not in WITHOUT_TRAINING]
)
def test_experiments_that_train_have_controls(name):
    """Random labels (of detection there are none), shuffled positions, and no positions."""
    experiment = find(name)
    words = [*experiment.rows, *experiment.columns.values()]
    absent = ("untrained", "before", "as drawn") if name in OF_EMBEDDINGS else ("NoPE", "None")
    labels = ("labels at random",) if name not in OF_BOXES | OF_A_COMPARISON else ()
    places = ("places shuffled",) if name not in OF_A_COMPARISON else ()
    for controls in filter(None, (labels, places, absent)):
        assert any(control in word for control in controls for word in words), controls


@pytest.mark.parametrize(
    "name, message",
    [
        ("thesis:tabel3", "did you mean 'thesis:table3'"),
        ("pape:figure1", "'pape:figure1': Figure 1 is shown by pape:extrapolation, pape:fashion-larger"),
        ("thesis:figure2", "Figure 2 is sample images of the data of Table 1, with nothing to"),
        ("mine:first", "'mine:first'. Known: molecules:sample, "),
    ],
)
def test_an_unknown_name_has_suggestions(name, message):
    with pytest.raises(UnknownNameError, match=message):
        find(name)


@pytest.mark.parametrize("paper", CONTENTS)
def test_every_table_and_figure_has_an_experiment_or_a_reason(paper):
    shown = {item for experiment in paper_experiments(paper) for item in experiment.shows}
    reasons = NOT_MEASURED.get(paper, {})
    assert [item for item in CONTENTS[paper] if item not in shown and item not in reasons] == []
    assert not shown & set(reasons)
    assert set(reasons) <= set(CONTENTS[paper])


def test_experiments_are_in_the_order_of_the_paper():
    firsts = [experiment.shows[0] for experiment in paper_experiments("thesis")]
    assert firsts[:4] == ["Table 1", "Figure 3", "Table 2", "Table 3"]
    assert sorted(e.name for paper in PAPERS for e in paper_experiments(paper)) == sorted(every())


@pytest.mark.parametrize("paper", CONTENTS)
@pytest.mark.skipif(not TEXTS.is_dir(), reason="needs the papers' texts beside the checkout")
def test_contents_are_the_captions_of_the_text(paper):
    text = (TEXTS / FILES[paper]).read_text(encoding="utf-8")
    captions = [f"{kind} {number}" for kind, number in CAPTION.findall(text)]
    ours = [item for item in CONTENTS[paper] if item.startswith(("Table", "Figure"))]
    assert captions == ours or (not captions and all(item in text for item in ours))
