"""Pictures of a run: names are drawn as they stand, and none that fails ends the run."""

from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.pictures import figures
from ndformer.framework.pictures import runs as report
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import DATASETS
from tests.soak.tiny import SoakSquares, config, register

pytestmark = pytest.mark.pictures


@pytest.fixture
def squares():
    register()
    yield
    DATASETS.module_dict.pop("SoakSquares")


def short():
    cfg = config(batch=8)
    cfg.train_cfg.max_epochs = 1
    return cfg


@pytest.mark.parametrize("name", ["$\\frac$", "a$b_$", "^{", "%", "\\"])
def test_names_of_classes_are_words_and_no_formulas(tmp_path, name):
    report.confusion_matrix(tmp_path / "matrix.png", np.eye(2, dtype=int), [name, "b"])
    assert (tmp_path / "matrix.png").stat().st_size > 1000


def test_curves_are_in_the_units_of_tables(tmp_path, monkeypatch):
    """Issue 44.12: curves had an accuracy of 0.42 where tables say 42 %."""
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda path, figure, **options: drawn.append(figure))
    report.curves(
        tmp_path / "x.png",
        [dict(epoch=1, loss=2.0, lr=0.1, accuracy=0.42)],
        "accuracy",
        Quantity.create("higher", "share"),
    )
    report.curves(
        tmp_path / "x.png", [dict(epoch=1, loss=2.0, lr=0.1, error=0.42)], "error", Quantity.create("lower", "px")
    )
    shown = [(figure.axes[1].get_title("left"), *figure.axes[1].lines[0].get_ydata()) for figure in drawn]
    assert shown == [
        ("validation accuracy in % (higher is better)", 42.0),
        ("validation error in px (lower is better)", 0.42),
    ]


def test_a_run_whose_classes_look_like_formulas_comes_to_its_end(tmp_path, monkeypatch, squares):
    index = SoakSquares.index

    def named(self, split):
        found = index(self, split)
        self.classes = ["$\\frac$", "$", "x"]
        return found

    monkeypatch.setattr(SoakSquares, "index", named)
    train(short(), tmp_path)
    assert (tmp_path / "confusion_matrix.png").is_file()


def test_pictures_that_fail_are_warnings_after_the_checkpoint_was_saved(tmp_path, monkeypatch, squares):
    saved = []

    def fails(*given):
        saved.append((tmp_path / checkpoint.LAST).is_file())
        raise MemoryError("no room for\na picture")

    monkeypatch.setattr(report, "curves", fails)
    monkeypatch.setattr(report, "confusion_matrix", fails)
    with pytest.warns(UserWarning, match="cannot draw") as said:
        train(short(), tmp_path)
    told = [str(one.message) for one in said if "cannot draw" in str(one.message)]
    assert told == [
        f"cannot draw {tmp_path}/{name} (no room for a picture): going on without it"
        for name in ("curves.png", "confusion_matrix.png")
    ]
    assert saved == [True, True]
    assert (tmp_path / "results.json").is_file()


@pytest.mark.parametrize("redrawn, epochs", [(30, [1, 4]), (0, [1, 2, 3, 4])])
def test_curves_are_drawn_now_and_then_and_of_the_whole_at_the_end(tmp_path, monkeypatch, squares, redrawn, epochs):
    drawn = []
    monkeypatch.setattr("ndformer.framework.engine.training.history.CURVES_EVERY", redrawn)
    monkeypatch.setattr(report, "curves", lambda path, history, main, quantity: drawn.append(len(history)))
    monkeypatch.setattr(report, "confusion_matrix", lambda *given: None)
    train(config(batch=8), tmp_path)
    assert drawn == epochs


def texts(monkeypatch, counts, classes, *nothing):
    """All that is written on a confusion matrix."""
    drawn = []
    monkeypatch.setattr(figures, "save_figure", lambda path, figure, **options: drawn.append(figure))
    report.confusion_matrix(Path("matrix.png"), counts, classes, *nothing)
    axis = drawn[0].axes[0]
    labels = [[one.get_text() for one in way.get_ticklabels()] for way in (axis.yaxis, axis.xaxis)]
    return [one.get_text() for one in axis.texts], *labels


def test_a_confusion_matrix_says_how_many_of_each_and_what_was_missed(monkeypatch):
    counts = np.array([[3, 0, 1], [0, 0, 0], [2, 0, 0]])
    written, truth, predicted = texts(monkeypatch, counts, ["ant", "bee", "background"], ("nothing there", "missed"))
    assert written == ["3", "1", "2"]
    assert truth == ["ant  (4)", "bee  (0)", "nothing there  (2)"]
    assert predicted == ["ant", "bee", "missed"]


@pytest.mark.slow
def test_all_classes_of_a_large_confusion_matrix_have_their_names(monkeypatch):
    names = [f"class {i}" for i in range(81)]
    written, truth, predicted = texts(monkeypatch, np.eye(81, dtype=int), names)
    assert (written, predicted) == ([], names)
    assert truth == [f"{name}  (1)" for name in names]
