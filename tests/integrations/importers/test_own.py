"""An importer of one's own is found by its name, in a config that imports its module."""

import sys

import torch

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.pretrained import read
from ndformer.framework.registry import IMPORTERS

MODULE = """
from ndformer.framework.importer import Imported, Part, StateDictReader, importer

@importer("of-mine", license="MIT", inside=("net",))
def convert(state_dict, head_dim):
    reader = StateDictReader(state_dict, "my linear head")
    weights = reader.pair("fc", "linear", None, None)
    return Imported(dict(head=Part(dict(type="Classifier", classes=2), weights)), reader.check_unused())
"""


def test_an_importer_in_a_module_of_custom_imports_reads_a_file(tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_importer.py").write_text(MODULE)
    (tmp_path / "code" / "mine.py").write_text(
        "_base_ = 'mnist_small.py'\ncustom_imports = dict(imports=['my_importer'])"
    )
    monkeypatch.syspath_prepend(tmp_path / "code")
    file = tmp_path / "theirs.pth"
    torch.save(dict(net={"fc.weight": torch.ones(2, 8), "fc.bias": torch.zeros(2)}), file)
    try:
        cfg = load(tmp_path / "code" / "mine.py", [f"weights=of-mine:{file}"])
        weights = read(cfg.weights).weights
        assert weights["head.linear.weight"].shape == (2, 8)
        assert IMPORTERS.get("of-mine").license == "MIT"
    finally:
        IMPORTERS.module_dict.pop("of-mine", None)
        sys.modules.pop("my_importer", None)
