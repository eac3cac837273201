"""docs/how-to/hooks.md: its hook runs, and it quotes the training loop as it is."""

import inspect
import json
import re
import textwrap
from pathlib import Path

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.registry import HOOKS
from tests.soak.tiny import config, register

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "hooks.md").read_text()
HOOK, *QUOTED = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_hook_of_the_page_logs_each_epoch(tmp_path):
    assert len([line for line in HOOK.splitlines() if line]) <= 15
    register()
    HOOKS.all()  # imports modules of torch that are deprecated
    exec(HOOK, {})
    cfg = config(custom_hooks=[dict(type="UpdateNorm")])
    cfg.train_cfg.max_epochs = 2
    train(cfg, tmp_path)
    log = (tmp_path / "train.log").read_text()
    assert re.findall(r"epoch (\d): the weights moved by 0\.\d{3}", log) == ["1", "2"]
    scalars = [json.loads(line) for line in (tmp_path / "vis_data" / "scalars.json").read_text().splitlines()]
    assert [row["step"] for row in scalars if "update_norm" in row] == [1, 2]


def test_the_page_quotes_the_training_loop():
    for method, quoted in zip((Trainer.train_epoch, Trainer.train_step), QUOTED, strict=True):
        assert textwrap.dedent(inspect.getsource(method)) == quoted
