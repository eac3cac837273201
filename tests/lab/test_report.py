"""report.html: its content, and that nothing from a run is more than text."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.lab import report, run_folder

CONFIG = Path(__file__).parents[2] / "configs" / "mnist_small.py"
HOSTILE = '<script>alert("1")</script>'


def made(folder: Path, accuracy: float, seed: int = 0, classes: tuple[str, ...] = ("seven",), **more) -> Path:
    """Make the folder of a run."""
    folder.mkdir(parents=True)
    cfg = load(CONFIG, [f"seed={seed}", "optimizer.lr=0.002"]).to_dict()
    saved.write(folder, cfg)
    content = dict(config=str(CONFIG), encoding="PaPE", dataset="MNIST", test=dict(accuracy=accuracy), seed=seed)
    content |= dict(val=dict(accuracy=accuracy), epochs=8, params=1234567, minutes=1.5)
    (folder / "results.json").write_text(json.dumps(content | more))
    of_class = {str(i): dict(name=name, samples=30 + i) for i, name in enumerate(classes)}
    checkpoint.save(folder / "best.pth", dict(model={}, data=dict(train=dict(samples=30, classes=of_class))))
    Image.new("RGB", (4, 4)).save(folder / "curves.png")
    (folder / "train.log").write_text(f"2026-11-23  ndformer 0.1.0  tools/train.py {HOSTILE}\nmore\n")
    return folder


def draw(folder: Path, *pictures: tuple[str, str]) -> None:
    """Make the pictures that training renders for the page."""
    (folder / "shown").mkdir()
    listed = [dict(kind=kind, says=says, file=f"{i}.png") for i, (kind, says) in enumerate(pictures)]
    (folder / "shown" / "shown.json").write_text(json.dumps(listed))
    for one in listed:
        Image.new("RGB", (9, 9), "red").save(folder / "shown" / one["file"])


def visible(page: str) -> str:
    """Return the text of a page without markup."""
    return re.sub(r"<[^>]+>", " ", page.partition("<body>")[2])


def test_a_run_has_metrics_pictures_data_config_and_command(tmp_path):
    folder = made(tmp_path / "run", 0.8765)
    draw(folder, ("samples", "a.png, 0: right"), ("encoding", "before and after"))
    page = report.runs_page([run_folder.read(folder)])
    assert 'alt="a.png, 0: right"' in page
    assert page.count('<img src="data:image/png;base64,') == 3
    assert "What the encoding does, before and after training" in visible(page)
    assert all(
        part in visible(page) for part in ("87.65 %", "1,234,567", "seven", "30", "PaPE(m=50, init_radius=[1, 3])")
    )
    assert re.search(r"optimizer\.lr *</td><td>0\.0015</td><td>0\.002", page)  # difference from the shipped config
    assert "tools/train.py" in visible(page)
    assert "lr=0.002" in visible(page)


def test_runs_that_differ_by_their_seed_are_one_row_with_an_interval(tmp_path):
    runs = [run_folder.read(made(tmp_path / f"seed{i}", accuracy, i)) for i, accuracy in enumerate((0.90, 0.92, 0.94))]
    page = report.runs_page(runs)
    (row,) = re.findall(r"<tr><td>PaPE.*?</tr>", page)
    assert "<td>3</td>" in row
    assert "92.00 ± 4.97 %" in row  # Student's t: 4.303 * 2 / sqrt(3)
    assert [name in visible(page) for name in ("seed0", "seed1", "seed2")] == [True] * 3


def test_values_of_a_custom_metric_have_its_unit(tmp_path):
    """Issue 44.1: an MAE had no unit, and the first value stood for the main one."""
    error = dict(better="lower", unit="px", decimals=1)
    more: dict[str, Any] = dict(test=dict(rmse=3.25, mae=2.0), val=dict(rmse=3.0, mae=1.5), main_metric="mae")
    folder = made(tmp_path / "run", 0.5, **more, quantities=dict(rmse=error, mae=error))
    page = visible(report.runs_page([run_folder.read(folder)]))
    assert all(part in page for part in ("3.2 px", "2.0 px", "validation, mae", "1.5 px"))
    (folder / "results.json").write_text(json.dumps(dict(test={}, val={}, quantities=dict(mae=dict(better="up")))))
    with pytest.raises(DataError, match="is not a file that a run writes"):
        run_folder.read(folder)


def test_untrusted_names_are_text_and_the_page_loads_nothing(tmp_path):
    folder = made(tmp_path / HOSTILE.replace("/", ""), 0.5, classes=(HOSTILE, "a & b", "'\" onload="), dataset=HOSTILE)
    other = made(tmp_path / "other", 0.5)
    page = report.runs_page([run_folder.read(folder), run_folder.read(other)])
    assert "<script" not in page
    assert "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;" in page
    assert "a &amp; b" in page
    assert not re.findall(r"(?:src|href|url\()\s*=?\s*[\"']?(?!data:)\w+:", page)
    assert "default-src 'none'" in page


def test_links_and_files_that_are_no_pictures_are_left_out(tmp_path):
    """An untrusted run may have links to any file."""
    folder = made(tmp_path / "run", 0.5)
    (tmp_path / "secret").write_text("the key is 1234\n")
    for name in ("curves.png", "train.log"):
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / "secret")
    draw(folder, ("samples", "one"))
    listed = [dict(kind="samples", says="x", file=name) for name in ("../../secret", "0.png", "none.png", "shown.json")]
    (folder / "shown" / "shown.json").write_text(json.dumps(listed))
    (folder / "shown" / "0.png").unlink()
    (folder / "shown" / "0.png").symlink_to(tmp_path / "secret")
    page = report.runs_page([run_folder.read(folder)])
    assert "1234" not in page
    assert "<img" not in page


def test_pictures_behind_links_are_left_out(tmp_path):
    """Issue 44.30: an untrusted run may link to one of your pictures or folders."""
    own, folder = made(tmp_path / "own", 0.5), made(tmp_path / "run", 0.5)
    draw(own, ("samples", "one"))
    (folder / "curves.png").unlink()
    (folder / "curves.png").symlink_to(own / "curves.png")
    (folder / "shown").symlink_to(own / "shown")
    assert "<img" not in report.runs_page([run_folder.read(folder)])


DAMAGED = [  # file, content, message; issue 44.30
    *[
        ("results.json", text, r"results\.json")
        for text in ("[]", "{", '{"test": 3}', '{"test": {"accuracy": "x"}, "val": {}}')
    ],
    ("results.json", json.dumps(dict(test=dict(a=10**400), val={})), "is not a file that a run writes"),  # no float
    *[("shown/shown.json", text, r"shown\.json is damaged") for text in ("{", "3", '[{"kind": "samples"}]', '["x"]')],
    ("config.json", dict(model=[1]), "config.json: model is not as a run writes it"),
    ("config.json", dict(model=dict(backbone="x")), "config.json: model is not as a run writes it"),
    ("config.json", dict(model=dict(backbone=dict(encoding=dict(m=8)))), "config.json: model.backbone.encoding is not"),
    ("config.json", dict(metrics=[dict(a=1)]), "config.json: metrics is not as a run writes it"),
    ("config.json", dict(test_dataloader=dict(dataset=3)), "config.json: the dataloaders is not as a run writes it"),
]


@pytest.mark.parametrize("file, content, message", DAMAGED, ids=str)
def test_damaged_files_are_errors(file, content, message, tmp_path):
    folder = made(tmp_path / "run", 0.5)
    draw(folder)
    if isinstance(content, dict):
        saved.write(folder, load(CONFIG).to_dict() | content)
    else:
        (folder / file).write_text(content)
    with pytest.raises(DataError, match=message):
        report.runs_page([run_folder.read(folder)])


def test_a_folder_without_results_is_an_error(tmp_path):
    with pytest.raises(DataError, match="Name the folder of a finished run"):
        run_folder.read(tmp_path)


def test_a_missing_picture_has_the_reason(tmp_path):
    folder = made(tmp_path / "run", 0.5)
    draw(folder, ("samples", "one"))
    listed = [dict(kind="attention", says="Not drawn: it joins <b>two</b>", file="")]
    (folder / "shown" / "shown.json").write_text(json.dumps(listed))
    page = report.runs_page([run_folder.read(folder)])
    assert "Not drawn: it joins &lt;b&gt;two&lt;/b&gt;" in page
    assert "Where the last layer looks" in visible(page)


def test_stand_ins_and_validation_on_the_test_set_are_noted(tmp_path):
    page = visible(
        report.runs_page(
            [run_folder.read(made(tmp_path / "run", 0.5, sample=True, val_is_test=True, test_is_val=True))]
        )
    )
    assert "The data has no test split, so its val split is the test set." in page  # issue 44.4
    assert "On the generated stand-in" in page
    assert "Validation was the test set itself" in page


def test_names_of_metrics_and_the_command(tmp_path):
    folder = made(tmp_path / "run", 0.5, test=dict(accuracy=0.5, mean_accuracy=0.25))
    began = "2026-11-23 08:00:00  ndformer 0.1.0, torch 2.13.0, Python 3.12.3, Linux x86_64, cpu with 1 threads"
    (folder / "train.log").write_text(f"{began}  tools/train.py configs/x.py\n")
    page = report.runs_page([run_folder.read(folder)])
    assert "test, mean accuracy of classes" in visible(page)
    assert "<pre>ndformer train configs/x.py</pre>" in page
    assert "<td>environment</td><td>ndformer 0.1.0, torch 2.13.0, Python 3.12.3," in page


def test_several_runs_are_side_by_side_with_their_differences(tmp_path):
    runs = [made(tmp_path / f"seed{i}", 0.9, i) for i in range(2)]
    for folder in runs:
        draw(folder, ("samples", "one"))
    page = report.runs_page([run_folder.read(folder) for folder in runs])
    assert page.count("<figcaption>seed0</figcaption>") == 2  # curves and samples
    assert re.search(r"<td>seed</td><td>0</td><td>1</td>", page)


@pytest.mark.parametrize(
    "classes, text",
    [
        (("ant", "bee", "cow"), "train: 30 samples in 3 classes, 30 to 32 of each, the median is 31."),
        (("seven",), "train: 30 samples in 1 classes, 30 of each."),  # issue 44.12: "54 to 54 samples of each"
    ],
)
def test_samples_per_class_are_in_words(tmp_path, classes, text):
    assert text in visible(report.runs_page([run_folder.read(made(tmp_path / "run", 0.5, classes=classes))]))


def test_the_page_begins_with_the_main_metric_and_fills_its_width(tmp_path):
    """Issue 44.12: no headline number, and the right half beside the confusion matrix and the data was empty."""
    folder = made(tmp_path / "run", 0.8765, test=dict(loss=1.0, accuracy=0.8765))
    Image.new("RGB", (1210, 330)).save(folder / "curves.png")
    Image.new("RGB", (600, 500)).save(folder / "confusion_matrix.png")
    page = report.runs_page([run_folder.read(folder)])
    assert '<p class="headline"><strong>87.65 %</strong> accuracy, test set</p>' in page
    assert page.index("headline") < page.index("<table>")
    (beside,) = re.findall(r'<div class="columns">(<section><h3>confusion matrix.*?)</div>', page)
    assert re.findall(r"<h3>(.*?)</h3>", beside) == ["confusion matrix", "Data"]
    assert page.index("learning curves") < page.index('<div class="columns">')
    assert "±" not in page  # one run has no interval
