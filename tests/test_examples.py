"""examples/: each is short, runs in seconds, and says what its first lines promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples" / "serve.py"})  # which test_serve.py has


def said(name: str, folder: Path) -> str:
    """What an example prints, run from elsewhere as one runs a file."""
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py"],
        env=os.environ | dict(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_under_40_lines_and_run_here(file):
    assert len([line for line in file.read_text().splitlines() if line.strip()]) < 40
    assert f'said("{file.stem}"' in Path(__file__).read_text()


@pytest.mark.slow
def test_without_positions_left_and_right_cannot_be_told(tmp_path):
    right = dict(re.findall(r"(\w+): ([\d.]+) right", said("attention_in_your_model", tmp_path)))
    assert 0.4 < float(right["NoPE"]) < 0.6
    assert float(right["PaPE"]) > 0.9


@pytest.mark.slow
def test_rings_are_looked_at_and_every_promise_is_kept(tmp_path):
    out = said("custom_encoding", tmp_path)
    for head, shares in enumerate(re.findall(r"looks at(.*)", out)):  # 1 to 4 tokens from the middle one
        looked = [int(share.strip(" %")) for share in re.findall(r" +\d+%", shares)]
        assert looked[4 - head - 1] + looked[4 + head + 1] > 60
    assert out.count("\npass ") > 10
    assert "FAIL" not in out


@pytest.mark.slow
def test_one_car_is_told_from_two(tmp_path):
    assert float(said("custom_modality", tmp_path).split()[0]) > 0.7


@pytest.mark.slow
def test_a_spot_is_found_to_the_pixel(tmp_path):
    assert float(said("custom_task", tmp_path).split()[0]) < 1.5  # always the middle: 6


@pytest.mark.slow
def test_the_loaded_model_looks_at_the_bright_quarter(tmp_path):
    out = said("inspect_model", tmp_path)
    assert "says upper right" in out
    rows = [[float(share.strip(" %")) for share in re.findall(r" *[\d.]+%", line)] for line in out.splitlines()[1:]]
    assert len(rows) == len(rows[0]) == 8
    assert sum(sum(row[4:]) for row in rows[:4]) > 40  # percent, where 25 is chance; the rest is the class token's


@pytest.mark.slow
def test_months_and_longitudes_are_better_circles_than_lines(tmp_path):
    off = dict(re.findall(r"(\w+): ([\d.]+) standard", said("ocean_climatology", tmp_path)))
    assert float(off["circles"]) < float(off["lines"]) < 1.05
