"""Hostile files in a process that is watched: tests/soak/foreign.py has hundreds."""

import os

from tests.soak.foreign import judged, run


def test_hostile_arrays_run_nothing_open_nothing_and_are_a_sentence():
    table, bad = run(["npy"], 0)
    assert not bad
    assert sum(tally["said"] for tally in table.values()) == 20


def test_the_watch_sees_what_it_must(tmp_path):
    assert "FORBIDDEN os.system" in judged(lambda: os.system("true"), tmp_path)
    assert "FORBIDDEN opened" in judged(lambda: open("/etc/passwd").close(), tmp_path)
    assert "TRACEBACK ZeroDivisionError" in judged(lambda: 1 / 0, tmp_path)
