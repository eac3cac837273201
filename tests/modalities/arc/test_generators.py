"""Rules are those of the corpus, and what is drawn is what they are for."""

from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.errors import UnknownNameError
from ndformer.modalities.arc.formats.tasks import COLORS, SIDE, read_task
from ndformer.modalities.arc.generators import TASKS, find

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "arc_agi" / "data" / "training"


@pytest.mark.skipif(not REAL.is_dir(), reason="the corpus is not here")
@pytest.mark.parametrize("name", TASKS)
def test_the_rule_gives_all_answers_of_the_corpus(name):
    task = TASKS[name]
    for part, pairs in read_task(REAL / f"{task.source}.json").items():
        for number, pair in enumerate(pairs):
            assert pair.output is not None
            assert np.array_equal(task.rule(pair.input), pair.output), (part, number)


@pytest.mark.parametrize("name", TASKS)
def test_pairs_are_grids_that_the_rule_changes_and_many_different_ones(name):
    task = TASKS[name]
    pairs = [task.pair(np.random.default_rng((0, i))) for i in range(40)]
    for pair in pairs:
        for grid in (pair.input, pair.output):
            assert grid is not None
            assert grid.ndim == 2
            assert 1 <= min(grid.shape) <= max(grid.shape) <= 8 < SIDE
            assert 0 <= grid.min() <= grid.max() < COLORS
        assert not np.array_equal(pair.input, pair.output)
    assert len({pair.input.tobytes() for pair in pairs}) > 20
    again = task.pair(np.random.default_rng((0, 7)))
    assert np.array_equal(again.input, pairs[7].input)


@pytest.mark.parametrize("name", TASKS)
def test_rules_do_not_change_their_input(name):
    grid = TASKS[name].pair(np.random.default_rng(0)).input
    before = grid.copy()
    TASKS[name].rule(grid)
    assert np.array_equal(grid, before)


def test_rules_by_hand():
    """Without the corpus: a few whose answer can be seen."""
    rule = lambda name, *rows: [
        "".join(map(str, row)) for row in TASKS[name].rule(np.array([list(map(int, r)) for r in rows]))
    ]
    assert rule("gravity", "120", "003", "400") == ["000", "100", "423"]
    assert rule("boxes", "44000", "04400", "00000", "00044") == ["44700", "74400", "00000", "00044"]
    assert rule("box", "08000", "08800", "00000") == ["08200", "08800", "00000"]
    assert rule("enclosed", "02220", "02020", "02220", "00000") == ["02220", "02120", "02220", "00000"]
    assert rule("loops", "11100", "10101", "11101") == ["33300", "30301", "33301"]
    assert rule("joined", "80080", "00000", "00080") == ["88880", "00080", "00080"]
    assert rule("parts", "5550", "5550", "5550") == ["1410", "4240", "1410"]
    assert rule("inside out", "7777", "7337", "7337", "7777") == ["3333", "3773", "3773", "3333"]


def test_tasks_are_found_by_both_names_and_are_of_one_corpus_task_each():
    assert find("hollow") is find("4347f46a") is TASKS["hollow"]
    assert len({task.source for task in TASKS.values()}) == len(TASKS) >= 14
    with pytest.raises(UnknownNameError, match="no generator of the task 'holow', did you mean 'hollow'"):
        find("holow")
