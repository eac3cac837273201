"""Checkpoint folders: written during training, loaded by any number of processes, refused if damaged."""

import copy
import io
import json
import os
import pickle
import re
import shutil
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from mmengine.config import Config
from torch.distributed.checkpoint._state_dict_stager import StateDictStager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor

from ndformer.framework.engine.training import checkpoint, manifest, pretrained, run_state, sharded, work_dir
from ndformer.framework.engine.training.optim import regrouped
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from tests.framework.engine.training.models import Run, batch, classifier, clouds, images, ptv3
from tests.framework.engine.training.runs import Malicious, flip, full
from tests.soak.tiny import unequal
from tests.spawned import spawned
from tools import convert_checkpoint

CASES = dict(image=(classifier, images), points=(ptv3, clouds))
RUNS = CASES | dict(scalars=(partial(classifier, "FIRE"), images))
PLAIN: dict[str, Any] = dict.fromkeys(("updates", "iter", "epoch", "processes"), 1)
PLAIN |= dict(scaler={}, skipped=0, batch=0, seconds=1.0, bad={}, history=[dict(loss=1.0)], classes=["a"])
PLAIN |= dict(progress=dict(done=1, loss=1.0, steps=1), settings=dict(train_cfg=dict(max_epochs=1)))


class SavedRun(Run):
    """A run whose state can be saved and restored, as the trainer does."""

    def __init__(self, case: str, parallel: Any = "fsdp") -> None:
        super().__init__(*RUNS[case], parallel)
        self.saver = sharded.Saver()

    def train(self, steps: int) -> list[float]:
        while len(self.losses) < steps:
            self.step(self.saver.wait_staged)
        return self.losses

    def content(self) -> dict[str, Any]:
        state = dict(model=self.model.state_dict(), optimizer=self.optimizer.state_dict())
        return dict(ema=self.average.average, losses=self.losses, **state, **PLAIN)

    def restore(self, path: Path) -> None:
        content = checkpoint.load(path, self.model.state_dict())
        self.model.load_state_dict(content["model"])
        self.average.average = content["ema"]
        self.optimizer.load_state_dict(regrouped(content["optimizer"], self.optimizer))
        self.losses = content["losses"]


def begin(case: str, folder: Path, steps: int, save_at: int) -> list[float]:
    run = SavedRun(case)
    run.train(save_at)
    run.saver.save_async(folder / "last", run.content(), "previous")
    run.train(steps)
    run.saver.close()
    return run.losses


def save(path: Path, previous: str | None = None) -> None:
    run = SavedRun("image")
    run.saver.save_async(path, run.content(), previous)
    run.saver.close()


def go_on(case: str, path: Path, steps: int, parallel: Any = "fsdp") -> list[float]:
    run = SavedRun(case, parallel)
    run.restore(path)
    run.train(steps)
    run.saver.close()
    return run.losses


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_runs_go_on_with_any_number_of_processes(case: str, tmp_path: Path) -> None:
    whole = spawned(2, begin, case, tmp_path, 8, 6)[0]
    for count in (2, 1, 3, 4):
        found = spawned(count, go_on, case, tmp_path / "last", 8)
        assert all(losses == pytest.approx(whole, abs=1e-5) for losses in found)
        assert count != 2 or found[0] == whole
    checkpoint.save(tmp_path / "last.pth", checkpoint.load(tmp_path / "last"))
    for path in (tmp_path / "last", tmp_path / "last.pth"):
        assert go_on(case, path, 8, "ddp") == pytest.approx(whole, abs=1e-5)


@pytest.mark.slow
def test_shards_of_scalars_and_of_more_processes_than_rows(tmp_path: Path) -> None:
    """FIRE has scalars; the head's 3 rows are shards of 1, 1, 1 and 0 rows on 4 processes."""
    whole = spawned(4, begin, "scalars", tmp_path, 4, 2)[0]
    assert go_on("scalars", tmp_path / "last", 4) == pytest.approx(whole, abs=1e-5)
    checkpoint.save(tmp_path / "last.pth", checkpoint.load(tmp_path / "last"))
    found = spawned(2, go_on, "scalars", tmp_path / "last.pth", 4)[0]
    assert found == pytest.approx(whole, abs=1e-5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """last/ and previous/ of one process."""
    folder = tmp_path_factory.mktemp("run")
    run = SavedRun("image")
    for steps in (1, 2):
        run.train(steps)
        run.saver.save_async(folder / "last", run.content(), "previous")
    run.saver.close()
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "run"))


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged, may_write, stage = threading.Event(), threading.Event(), StateDictStager.stage
    write = sharded.Writer.write_data
    monkeypatch.setattr(StateDictStager, "stage", lambda *a, **k: (staged.wait(10), stage(*a, **k))[1])
    monkeypatch.setattr(sharded.Writer, "write_data", lambda *a: (may_write.wait(10), write(*a))[1])
    run = SavedRun("image")
    run.train(1)
    before = copy.deepcopy(run.content())
    run.saver.save_async(tmp_path / "last", run.content())
    run.model(**batch(images(7), "image"), mode="loss")  # changes the statistics of BatchNorm
    assert not run.saver.staged.done()
    staged.set()
    run.train(3)  # waits until the weights are copied
    assert not (tmp_path / "last").exists()
    may_write.set()
    run.saver.close()
    assert not unequal(checkpoint.load(tmp_path / "last"), before | dict(format=checkpoint.FORMAT))
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_hooks_state_is_that_of_rank_0_when_it_was_saved(tmp_path: Path) -> None:
    spawned(2, save_hook_state, tmp_path / "last")
    state = checkpoint.load(tmp_path / "last")["hooks"]["Count"]
    assert {name: value.tolist() for name, value in state.items()} == {"rank0": [0.0], "sharded": [1.0, 1.0, 1.0]}


def save_hook_state(path: Path) -> None:
    """Save a hook's state whose names differ by rank and which the hook changes before the shards are written."""
    mesh = init_device_mesh("cpu", (2,))
    state = {f"rank{dist.get_rank()}": torch.zeros(1), "sharded": distribute_tensor(torch.ones(3), mesh)}
    saver, stage = sharded.Saver(), StateDictStager.stage
    changed = threading.Event()
    StateDictStager.stage = lambda *a, **k: (changed.wait(10), stage(*a, **k))[1]
    saver.save_async(path, dict(model={}, hooks=dict(Count=state)))
    for tensor in state.values():
        tensor += 7
    changed.set()
    saver.close()


def test_last_and_previous_are_two_states_and_consolidate_writes_the_same(folder: Path) -> None:
    last, previous = (checkpoint.load(folder / name) for name in ("last", "previous"))
    assert len(last["losses"]) == 2
    assert len(previous["losses"]) == 1
    convert_checkpoint.main(["consolidate", str(folder / "last"), str(folder / "one.pth")])
    assert not unequal(checkpoint.load(folder / "one.pth"), last)


def test_a_folder_of_checkpoints_is_answered_with_their_names(folder: Path) -> None:
    (folder / "best.pth").touch()
    with pytest.raises(DataError, match="got a folder of them: add one of best.pth, last, previous"):
        convert_checkpoint.main(["consolidate", str(folder), str(folder / "one.pth")])
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="got a folder without any"):
        checkpoint.load(folder / "empty")


def test_a_file_name_stands_for_a_folder_and_only_checkpoints_are_removed(folder: Path) -> None:
    assert work_dir.begun(folder)
    assert len(checkpoint.load(folder / "last.pth")["losses"]) == 2
    (folder / "best").mkdir()
    assert not checkpoint.exists(folder / "best.pth")
    work_dir.clear(folder)
    assert [path.name for path in folder.iterdir()] == ["best"]


def test_an_older_file_is_removed_before_a_folder_is_replaced(folder: Path) -> None:
    """A process that is killed while it replaces last/ leaves previous/ as the newest checkpoint."""
    (folder / "last.pth").write_bytes(b"of a run on one process")
    os.utime(folder / "last.pth", (0, 0))
    found = []
    save = lambda *_: found.append(checkpoint.forms(folder / "last.pth"))
    saver = SimpleNamespace(wait_written=lambda: None, save_async=save)
    ownership = SimpleNamespace(check=lambda: None)
    trainer: Any = SimpleNamespace(call_hook=lambda *_, **__: None, folder=folder, saver=saver, ownership=ownership)
    run_state._write(trainer, checkpoint.LAST, dict(model={}), checkpoint.PREVIOUS)
    assert found == [[folder / "last"]]


def test_the_checkpoint_that_is_read_instead_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "last.pth").write_bytes(b"damaged")
    assert checkpoint.load_newest(folder)[0] == folder / "last"
    assert capsys.readouterr().out.endswith(f"Resuming from {folder / 'last'}\n")


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "it is damaged: the digest of __0_0.distcp does not fit": lambda f: flip(f / "__0_0.distcp", -200),
    "its file __0_0.distcp is missing": lambda f: (f / "__0_0.distcp").unlink(),
    "it is damaged: the digest of values.pth does not fit": lambda f: flip(f / "values.pth", -200),
    "its file values.pth is missing": lambda f: (f / "values.pth").unlink(),
    "it is damaged: the digest of manifest.json does not fit": lambda f: (f / "manifest.json").write_text(
        (f / "manifest.json").read_text().replace("[33, 33]", "[33, 34]", 1)
    ),
    "Expecting": lambda f: os.truncate(f / "manifest.json", 1),
}


@pytest.mark.parametrize("sentence", DAMAGES)
def test_a_damaged_folder_raises_a_one_line_error_and_previous_is_loaded(sentence: str, folder: Path) -> None:
    DAMAGES[sentence](folder / "last")
    with pytest.raises(DataError, match=re.escape(sentence)) as error:
        checkpoint.load(folder / "last")
    assert "\n" not in str(error.value)
    path, content = checkpoint.load_newest(folder)
    assert path.name == "previous"
    assert len(content["losses"]) == 1


def test_all_processes_report_the_damage_that_one_finds(folder: Path) -> None:
    flip(folder / "last" / "values.pth", -200)
    for sentence in spawned(2, _problem, folder / "last"):
        assert "values.pth does not fit" in sentence


def _problem(path: Path) -> str:
    try:
        checkpoint.load(path, {})
    except DataError as error:
        return str(error)
    return ""


def test_no_code_in_a_folder_is_executed(folder: Path) -> None:
    """The digests fit, as in a folder that an attacker wrote."""
    malicious = Malicious(folder / "evil")
    (folder / "last" / ".metadata").write_bytes(pickle.dumps(malicious))
    assert checkpoint.load(folder / "last")
    index = json.loads((folder / "last" / "manifest.json").read_text())
    evil = io.BytesIO()
    torch.save(malicious, evil)
    (folder / "last" / "__0_0.distcp").write_bytes(evil.getvalue().ljust(10**6, b"0"))
    index["files"]["__0_0.distcp"] = manifest.file_entry(folder / "last" / "__0_0.distcp")
    for entry in index["tensors"].values():
        for chunk in entry["chunks"]:
            chunk["inside"][1:] = [0, len(evil.getvalue())]
        if sum(entry["shape"]) > 20:
            entry["shape"], entry["chunks"] = [0], []
    _seal(folder / "last", index)
    with pytest.raises(DataError, match="cannot be read safely|can be read safely"):
        checkpoint.load(folder / "last")
    assert not (folder / "evil").exists()


def _seal(folder: Path, index: dict[str, Any]) -> None:
    index.pop("digest", None)
    (folder / "manifest.json").write_text(json.dumps(index | dict(digest=manifest._digest(index))))


@pytest.mark.parametrize("problem", ["../run/last.pth", "huge", "beyond", "overlap"])
def test_an_index_that_names_other_places_is_refused(problem: str, folder: Path) -> None:
    index = json.loads((folder / "last" / "manifest.json").read_text())
    entry = index["tensors"]["model/head.linear.weight"]
    if problem == "huge":
        entry["shape"] = entry["chunks"][0]["shape"] = [2**40]
        entry["chunks"][0]["offset"] = [0]
    elif problem == "beyond":
        entry["chunks"][0]["inside"][1] = 10**9
    elif problem == "overlap":
        entry["chunks"] *= 2
    else:
        index["files"][problem] = index["files"].pop("__0_0.distcp")
    _seal(folder / "last", index)
    with pytest.raises(DataError, match="can be read safely"):
        checkpoint.load(folder / "last")


def test_an_error_while_writing_leaves_the_old_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded.Writer, "write_data", full)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\). The checkpoint before"):
        save(folder / "last", "previous")
    assert sorted(path.name for path in folder.iterdir()) == ["last", "previous"]
    assert len(checkpoint.load(folder / "last")["losses"]) == 2


@pytest.mark.parametrize("when", ["_sync", "rename0", "rename1"])
def test_a_process_that_is_killed_while_it_writes_leaves_a_checkpoint(when: str, folder: Path) -> None:
    os.rename(folder / "last", folder / "best")
    child = os.fork()
    if not child:
        renames, rename = [], os.rename

        def killed(*paths: Any) -> None:
            if when == f"rename{len(renames)}":
                os.kill(os.getpid(), signal.SIGKILL)
            renames.append(paths)
            rename(*paths)

        os.rename = killed
        if when == "_sync":
            sharded.write_manifest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        save(folder / "best")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert len(checkpoint.load(folder / "best")["losses"]) == 2
    atomic.clear(folder)
    save(folder / "best")
    assert sorted(path.name for path in folder.iterdir()) == ["best", "previous"]
    assert not checkpoint.load(folder / "best")["losses"]


def test_weights_may_be_those_of_a_run_of_several_processes(folder: Path) -> None:
    (folder / "last").rename(folder / "best")
    run = SavedRun("image")
    cfg = Config(dict(weights=str(folder / "best.pth"), model=dict(backbone=dict(encoding=None))))
    assert pretrained.begin(run.model, cfg)
