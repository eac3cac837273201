"""Every table and figure of the papers has an experiment, or a reason to have none."""

import re
from pathlib import Path

import pytest

from ndformer.studies import PAPERS, every, paper_experiments
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


@pytest.mark.parametrize("paper", CONTENTS)
def test_all_of_a_paper_is_measured_or_has_a_reason(paper):
    shown = {item for experiment in paper_experiments(paper) for item in experiment.shows}
    reasons = NOT_MEASURED.get(paper, {})
    missing = [item for item in CONTENTS[paper] if item not in shown and item not in reasons]
    assert missing == []
    assert not shown & set(reasons)
    assert set(reasons) <= set(CONTENTS[paper])


def test_experiments_stand_for_what_is_in_their_paper():
    for experiment in every().values():
        assert set(experiment.shows) <= set(CONTENTS.get(experiment.paper, ())), experiment.name


def test_experiments_come_in_the_order_of_the_paper():
    firsts = [one.shows[0] for one in paper_experiments("thesis") if one.shows]
    assert firsts[:4] == ["Table 1", "Figure 3", "Table 2", "Table 3"]
    for paper in PAPERS:
        assert sorted(one.name for one in paper_experiments(paper)) == sorted(
            n for n, one in every().items() if one.paper == paper
        )


@pytest.mark.parametrize("paper", CONTENTS)
@pytest.mark.skipif(not TEXTS.is_dir(), reason="needs the papers' texts beside the checkout")
def test_contents_are_the_captions_of_the_text(paper):
    text = (TEXTS / FILES[paper]).read_text(encoding="utf-8")
    captions = [f"{kind} {number}" for kind, number in CAPTION.findall(text)]
    ours = [item for item in CONTENTS[paper] if item.startswith(("Table", "Figure"))]
    assert captions == ours or (not captions and all(item in text for item in ours))
