"""The note on 2D sinusoidal encodings."""

import torch

from ndformer.lab.experiment import Results
from ndformer.studies import find
from ndformer.studies.sincos2d.note import SENTENCES, draw, frequencies, table
from tests.studies.test_pape import words


def test_sentences_are_supported_except_those_on_low_and_high_frequencies(tmp_path):
    verdicts = list(words(find("sincos2d:note"), tmp_path).values())
    contradicted = [row for row, word in zip(SENTENCES, verdicts, strict=True) if word == "contradicted"]
    assert contradicted == [
        "It takes several frequencies, irrational to each other, for that",
        "Early dimensions have low frequencies",
        "Early dimensions tell left half from right half",
        "Late dimensions tell adjacent patches",
        "Distant places are orthogonal",
        "Not even in products of places alone",
    ]
    assert "inconclusive" not in verdicts


def test_the_first_dimensions_have_the_highest_frequency():
    """Count the sign changes of each sine along a long row."""
    positions = torch.stack([torch.zeros(2000), torch.arange(2000.0)], dim=1)
    sines = table(positions)[:, 32::2]
    changes = (sines[1:].sign() != sines[:-1].sign()).sum(0)
    assert (changes.diff() <= 0).all()
    assert changes[0] > 100 * changes[-1]
    assert (frequencies().diff() < 0).all()


def test_the_figure_is_drawn(tmp_path):
    draw(Results({}), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10000
