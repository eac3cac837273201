"""tools/test.py on samples with several modalities: results without each of them."""

import re

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import build_loader
from ndformer.framework.registry import STAND_INS
from tests import programs
from tests.programs import CONFIGS, save_untrained
from tools import test as test_tool

CONFIG = CONFIGS / "paired_sample.py"
FEW = "[dict(type='SamplePoints', count=50), dict(type='PackPoints')]"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paired")
    STAND_INS.get("paired")().write(folder, 0, train=1, test=2, points=60)
    (folder / "GENERATED_SAMPLE").write_text("")
    return folder


def run(home, tmp_path, capsys, *options):
    """Return the output of tools/test.py, the model and its config."""
    points = f"test_dataloader.dataset.transforms.0.chains.points={FEW}"
    options = ["model.backbone.dim=24", "model.backbone.depth=1", points, f"data_root={str(home)!r}", *options]
    cfg = load(CONFIG, options)
    model = save_untrained(tmp_path / "best.pth", cfg, build_loader(cfg, "test").data.classes, head_std=1.0)
    programs.run(test_tool.main, CONFIG, tmp_path / "best.pth", "--cfg-options", *options)
    said = capsys.readouterr().out.splitlines()
    said.remove(
        "the data were generated: do not compare these results with those of the dataset of that name"
    )  # told once
    remark = said.pop(1)  # on the whole model, which is untrained
    assert "is not clearly above" in remark
    return said, model, cfg


def accuracy(model, cfg, masked):
    model.masked = masked
    found = [one for batch in build_loader(cfg, "test") for one in model.val_step(batch)]
    return sum(one.prediction == one.label for one in found) / len(found)


def test_each_modality_is_masked_out_in_turn(home, tmp_path, capsys):
    said, model, cfg = run(home, tmp_path, capsys)
    assert [re.split(r"accuracy|top", line)[0].strip() for line in said] == ["", "without image:", "without points:"]
    for line, masked in zip(said, [set(), {"image"}, {"points"}]):
        found = re.search(r"accuracy (\d\.\d+)", line)
        assert found is not None
        assert float(found[1]) == pytest.approx(accuracy(model, cfg, masked), abs=1e-4)


def test_where_nothing_is_left_it_says_so_and_goes_on(home, tmp_path, capsys):
    whole, *without = run(home, tmp_path, capsys, "test_dataloader.dataset.only=image")[0]
    assert without == ["without image:  samples have no other modality", f"without points:  {whole}"]
