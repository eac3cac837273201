"""tools/report.py on the folder of a run."""

import json
import re
import shutil
from typing import Any

import pytest

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.lab.report import write_after_training
from tests.programs import SMALL, save_untrained, write_images
from tools import report


@pytest.fixture
def run(tmp_path):
    data = write_images(tmp_path / "data", ("cat", "dog"), size=(48, 48))
    cfg = load("configs/sign_digits.py", [*SMALL, "model.head.classes=2", f"data_root={data}"])
    folder = tmp_path / "run"
    folder.mkdir()
    saved.write(folder, cfg.to_dict())
    save_untrained(folder / "best.pth", cfg, ["cat", "dog"])
    figures = dict(test=dict(accuracy=0.5), val=dict(accuracy=0.5), params=10, minutes=0.1, config="sign_digits.py")
    (folder / "results.json").write_text(json.dumps(figures))
    return folder


@pytest.mark.slow
def test_samples_are_of_the_test_set_the_worst_and_the_best(run, capsys):
    report.main([str(run), "--samples", "6"])
    assert capsys.readouterr().out.endswith(f"{run / 'report.html'}\n")
    page = (run / "report.html").read_text()
    assert len(re.findall(r'alt="[^"]+png, \d: [^"]+"', page)) == 6
    assert all(says in page for says in ("Where the last layer looks", "before and after training"))
    (run / "report.html").unlink()
    report.main([str(run)])  # it takes what there is
    assert page == (run / "report.html").read_text()
    assert "model.head.classes</td><td>10</td><td>2" in re.sub(r"\s", "", page).replace("<td>model", "model")


def test_several_runs_are_a_page_beside_each_other(run, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    report.main([str(run), str(other), str(run), "--out", str(tmp_path / "both.html")])
    page = (tmp_path / "both.html").read_text()
    assert (page.count("<summary>run</summary>"), page.count("<summary>other</summary>")) == (1, 1)
    assert not (run / "report.html").exists()


def test_without_its_data_samples_are_a_sentence(run, tmp_path):
    for path in sorted((tmp_path / "data").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(DataError):
        report.main([str(run), "--samples", "6"])


def test_a_page_that_cannot_be_written_ends_no_training(tmp_path):
    nothing: Any = None
    with pytest.warns(UserWarning, match=r"cannot draw .*report\.html .*: going on without it"):
        write_after_training(tmp_path / "gone", nothing, nothing, nothing, nothing)
    assert not list(tmp_path.iterdir())
