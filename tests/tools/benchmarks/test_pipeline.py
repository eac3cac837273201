"""tools/benchmarks/pipeline.py: tokens are counted without padding, and it ends with a table."""

from pathlib import Path

import pytest
import torch

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.registry import STAND_INS
from tools.benchmarks import pipeline as benchmark_pipeline

CONFIG = Path(__file__).parents[3] / "configs" / "nmnist_pape.py"
SMALL = ["--cfg-options", "model.backbone.depth=1", "train_dataloader.batch_size=2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nmnist")
    STAND_INS.get("nmnist")().write(folder, 0, 2, 1)
    return folder


def test_a_row_for_each_config(home, capsys):
    benchmark_pipeline.main(
        ["nmnist_small", "nmnist_pape", "--data-root", str(home), "--batches", "1", "--sample", *SMALL]
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["nmnist_small", "nmnist_pape"]
    _, count, loading, training, ratio = lines[2].strip("|").split("|")
    assert 10 < float(count) < 400
    assert float(loading.replace(",", "")) > 0
    assert float(ratio) == pytest.approx(float(loading.replace(",", "")) / float(training.replace(",", "")), rel=0.05)


def test_padding_is_no_token():
    model = build_model(load(CONFIG, ["model.backbone.dim=16", "model.backbone.depth=1"]))
    rows = torch.zeros(3, 7 + 4, dtype=torch.int16)
    rows[:, 0] = 2 * 6 * 8 * 8
    batch = dict(inputs=dict(events=[rows, rows[:1]]), data_samples=[{}, {}])
    assert benchmark_pipeline.count_tokens(model, batch) == 4 + 2  # and a class token each
