"""docs/reference/formats.md: it has the keys that a tiny run, its exports, shards and comparisons really have."""

import json
import re
import tarfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch

from ndformer.cli import modelcard
from ndformer.framework.answers.tables import write_table
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, contents, exported, sharded
from ndformer.framework.engine.training.owner import NAME
from ndformer.framework.engine.training.work_dir import WRITTEN
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import ANSWERS, DATASETS
from ndformer.lab import compare_table, extrapolate, probe_positions, runner
from ndformer.lab.experiment import Cell
from ndformer.lab.interval import Summary
from tests.docs import made
from tests.framework.data.photos import pack, photos
from tests.lab.test_compare_table import PLAIN, outcomes
from tests.lab.test_experiment import LENGTHS
from tests.programs import CONFIGS
from tests.soak import tiny
from tools.export import graph_metadata

PAGE = (made.ROOT / "docs" / "reference" / "formats.md").read_text()
ONLY_IF = {"sample", "test_is_val", "val_is_test", "bad"}  # keys of results.json that a common run lacks


def section(title: str) -> str:
    """Return the text below a heading, down to the next one."""
    (found,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return found


def keys(title: str, head: str = "key") -> list[str]:
    """Return the first column of the table with this head, in a section."""
    (table,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", section(title), re.MULTILINE)
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a second."""
    folder = tmp_path_factory.mktemp("run")
    tiny.register()
    train(tiny.config(), folder)
    DATASETS.module_dict.pop("SoakSquares", None)
    return folder


def test_the_folder_of_a_run_has_the_files_of_the_page(run):
    files = keys("The folder of a run", "file")
    assert sorted(files) == sorted([*WRITTEN, NAME])
    assert {path.name for path in run.iterdir()} <= set(files)


def test_config_and_results_have_the_keys_of_the_page(run):
    assert keys("config.json") == list(read(run / "config.json"))
    results = read(run / "results.json")
    assert [key for key in keys("results.json") if key not in ONLY_IF] == list(results)
    assert set(keys("results.json")) - results.keys() == ONLY_IF
    quantity = results["quantities"][results["main_metric"]]
    assert list(quantity) == [field.name for field in fields(Quantity)] == ["better", "unit", "decimals"]


def test_scalars_have_the_keys_of_the_page_and_the_metrics(run):
    rows = [json.loads(line) for line in (run / "vis_data" / "scalars.json").read_text().splitlines()]
    metrics = checkpoint.load(run / "last.pth")["metrics"]
    assert metrics
    assert {*rows[0]} - {*metrics} == {*keys("scalars.json")}


def test_checkpoints_have_the_keys_of_the_page(run):
    places = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (\w+) \|", section("Checkpoints"), re.MULTILINE))
    assert {*places} == {"model", *contents.METADATA, *contents.RUN}
    always = {key for key, place in places.items() if place == "all"}
    assert {*checkpoint.load(run / "best.pth")} == always
    last = always | {key for key, place in places.items() if place == "last"}
    assert {*checkpoint.load(run / "last.pth")} == last - {"hooks"}
    assert f"| `format` | integer | all | {contents.FORMAT};" in PAGE
    assert "optimizer" in torch.load(run / "last.pth", weights_only=True)


def test_a_checkpoint_that_is_a_folder_has_the_files_of_the_page(tmp_path):
    saver = sharded.Saver()
    saver.save_async(tmp_path / "last", dict(model=dict(weight=torch.ones(2, 2))))
    saver.close()
    title = "Checkpoints that are folders"
    files = {re.sub(r"__\d+_\d+", "__RANK_NUMBER", path.name) for path in (tmp_path / "last").iterdir()}
    assert files == {*keys(title, "file")}
    manifest = read(tmp_path / "last" / "manifest.json")
    assert keys(title, "key of manifest.json") == list(manifest)
    (tensor,) = manifest["tensors"].values()
    named = {*re.findall(r"`(\w+)`", section(title))}
    assert {*tensor, *tensor["chunks"][0], *manifest["files"]["values.pth"]} <= named


def test_exports_have_the_keys_of_the_page(run, tmp_path):
    title = "Exported weights and graphs"
    content = checkpoint.load(run / "best.pth")
    exported.export(tmp_path / "x.safetensors", content)
    with safetensors.safe_open(str(tmp_path / "x.safetensors"), framework="pt") as file:
        about = file.metadata()
    assert {*about} == {"ndformer", "ndformer_digest"} <= {*re.findall(r"`(\w+)`", section(title))}
    assert {*json.loads(about["ndformer"])} == {"classes", "epoch", "metrics", "config", "data"}
    cfg = load(CONFIGS / "mnist_small.py", sample=True)
    modelcard.write(tmp_path / "published", cfg, content, run, "unknown")
    assert {path.name for path in (tmp_path / "published").iterdir()} == {*keys(title, "file")}
    graph = graph_metadata(cfg, build_model(cfg, "cpu"), ["0"])
    assert keys(title, "key of a graph") == list(graph)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("classification", "Label"),
        ("detection in images", "Boxes"),
        ("detection in space", "Boxes3D"),
        ("grids", "Cells"),
        ("regression", "Values"),
    ],
)
def test_predictions_have_the_columns_of_the_page(task, kind, tmp_path):
    (row,) = re.findall(rf"^\| {task} \| [^|]+ \| (.*) \|$", PAGE, re.MULTILINE)
    write_table(tmp_path / "x.csv", [], [], ANSWERS.get(kind))
    columns = (tmp_path / "x.csv").read_text().strip().split(",")
    assert re.findall(r"`([a-z0-9]+)`", row)[: len(columns)] == columns


def test_shards_have_the_keys_of_the_page(tmp_path):
    photos(tmp_path / "photos")
    pack(tmp_path / "photos", tmp_path / "shards")
    meta = read(tmp_path / "shards" / "index" / "meta.json")
    assert keys("Shards", "key of index/meta.json") == list(meta)
    assert {*meta["tables"][0]} <= {*re.findall(r"`(\w+)`", section("Shards"))}
    with tarfile.open(tmp_path / "shards" / "train-000000.tar") as shard:
        name = next(name for name in shard.getnames() if name.endswith(".json"))
        file = shard.extractfile(name)
        assert file is not None
        about = json.loads(file.read())
    assert keys("Shards", "key of a sample's JSON") == list(about)
    assert {*about["samples"][0]} == {"label", "class_name", "files", "record"}


def test_comparisons_have_the_keys_of_the_page(tmp_path):
    compare_table.write_report(tmp_path, "title", "accuracy", "Sincos", outcomes(PLAIN))
    content = read(tmp_path / "compare.json")
    assert keys("Comparisons", "key of compare.json") == list(content)
    assert keys("Comparisons", "key of a row") == list(content["rows"][0])
    assert keys("Comparisons", "key of a run") == list(content["runs"][0])
    assert [field.name for field in fields(Summary)] == ["n", "mean", "sd", "half", "p"]
    ranked = read(made.ROOT / "docs" / "results" / "data" / "comparison.json")
    assert keys("Comparisons", "key of comparison.json") == list(ranked)
    named = {*re.findall(r"`(\w+)`", section("Comparisons"))}
    compared = ranked["sets"]["mnist_small"]
    assert {*ranked["ranking"], *compared, *compared["cells"]["PaPE"]} <= named


def test_results_of_papers_have_the_keys_of_the_page(tmp_path):
    title = "Results of papers"
    cell = Cell("a", 0, "small", tmp_path / "a", tmp_path)
    runner.measure(LENGTHS, cell)
    assert keys(title, "key of cell.json") == list(read(tmp_path / "a" / runner.CELL))
    table = read(made.ROOT / "docs" / "papers" / "pape_table1_small" / "results.json")
    assert keys(title, "key of a table's results.json") == list(table)


def test_tests_at_other_sizes_and_probes_have_the_keys_of_the_page():
    title = "Tests at other sizes, and probes"
    named = {*re.findall(r"`(\w+)`", section(title))}
    tested = {field.name for field in fields(extrapolate.Tested)} - {"train_shape"}
    assert tested | {"trained"} <= named
    probed = {field.name for field in fields(probe_positions.Probed)}
    assert probed | {"folds", "penalty"} <= named
