"""config.json next to a run's config.py: the same config as data, so that no untrusted code runs."""

import json
import math
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.inherit import read
from ndformer.framework.engine.config.load import load, load_text
from ndformer.framework.errors import ConfigError, DataError
from tests.programs import CONFIGS

SHIPPED = sorted(CONFIGS.glob("*.py"))
ENCODINGS = [None, "PaPE(m=8)", "Sincos, RelativeBias(reach=8)"]


def typed(value: Any) -> Any:
    """Add the types, since 1 == 1.0 == True, and make NaN comparable."""
    if isinstance(value, dict):
        return {repr(key): typed(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return (type(value), [typed(one) for one in value])
    return type(value), repr(value)


def there_and_back(folder: Path, cfg: dict[str, Any]) -> dict[str, Any]:
    saved.write(folder, cfg)
    return saved.read(folder / "config.json")


def test_shipped_configs_come_back_as_they_were(tmp_path: Path) -> None:
    for path in SHIPPED:
        assert typed(there_and_back(tmp_path, read(path))) == typed(read(path)), path


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_a_run_was_of_is_loaded_again(sample: bool, encoding: str | None, tmp_path: Path) -> None:
    cfg = load(CONFIGS / "cifar10_pape.py", encoding=encoding, sample=sample)
    saved.write(tmp_path, cfg.to_dict())
    for name in ("config.py", "config.json"):
        again = load(tmp_path / name)
        assert (typed(again.to_dict()), again.pretty_text) == (typed(cfg.to_dict()), cfg.pretty_text)


@pytest.mark.parametrize(
    "value",
    [(), (1, (2,)), {0: "a", 1: ("b",)}, {"__tuple__": [1]}, math.inf, math.nan, -0.0, [None, True, 1, 1.0], {}],
)
def test_what_json_lacks_comes_back_too(value: Any, tmp_path: Path) -> None:
    assert typed(there_and_back(tmp_path, dict(sample=dict(x=value)))) == typed(dict(sample=dict(x=value)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cfg = load(CONFIGS / "cifar10_pape.py").to_dict()
    saved.write(tmp_path, cfg)
    (tmp_path / "best.pth").touch()
    return tmp_path


def poison(folder: Path) -> Path:
    ran = folder / "ran"
    (folder / "config.py").write_text(f"open({str(ran)!r}, 'w').close()\n{(folder / 'config.py').read_text()}")
    return ran


@pytest.mark.parametrize(
    "is_old, sentence",
    [(False, "was changed after its run wrote it"), (True, "is code, and its folder has no config.json")],
)
def test_a_config_py_without_the_same_config_json_is_not_run_unless_told_to(
    folder: Path, is_old: bool, sentence: str
) -> None:
    if is_old:
        (folder / "config.json").unlink()
    ran = poison(folder)
    with pytest.raises(DataError, match=sentence) as error:
        load(folder / "config.py")
    assert error.value.option == "--trust-config runs it"
    if not is_old:
        load(folder / "config.json")
    assert not ran.exists()
    load(folder / "config.py", trusted=True)
    assert ran.exists()


def torch_archive(path: Path) -> None:
    torch.save(WEIGHTS, path)


def zip_with(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"")


def hdf5(path: Path, group: str) -> None:
    with h5py.File(path, "w") as file:
        file[f"{group}/x"] = np.arange(100)


def sharded(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).touch()


WEIGHTS = dict(x=torch.zeros(1))
NAMES = ("weights.safetensors", "BEST.PTH", "epoch_3.pth", "a.ckpt", "a.pt", "results.json")
BESIDE: dict[str, Callable[[Path], object]] = dict.fromkeys(NAMES, Path.touch)
BESIDE |= dict.fromkeys(("weights.dat", "weights"), torch_archive)
BESIDE |= {
    "pytorch_model.bin": lambda path: torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False),
    "protocol_4.bin": lambda path: torch.save(WEIGHTS, path, _use_new_zipfile_serialization=False, pickle_protocol=4),
    "state.pkl": lambda path: path.write_bytes(pickle.dumps(WEIGHTS)),
    "renamed.bin": lambda path: path.write_bytes(safetensors.torch.save(WEIGHTS)),
    "program.bin": lambda path: zip_with(path, "program/archive_format"),
    "keras.bin": lambda path: hdf5(path, "model_weights"),
    "last": lambda path: sharded(path, "manifest.json"),
    ".last.replaced": lambda path: sharded(path, "manifest.json"),
    "dcp": lambda path: sharded(path, ".metadata"),
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("config", ["config.py", "model.py"])
def test_code_beside_weights_of_any_name_is_not_run_unless_told_to(name: str, config: str, tmp_path: Path) -> None:
    """Also through a link in another folder."""
    (tmp_path / "T").mkdir()
    BESIDE[name](tmp_path / "T" / name)
    code, ran = tmp_path / "T" / config, tmp_path / "ran"
    code.write_text(f"open({str(ran)!r}, 'w').close()\n_base_ = [{str(CONFIGS / 'cifar10_pape.py')!r}]\n")
    (tmp_path / "link.py").symlink_to(code)
    for path in (code, tmp_path / "link.py"):
        with pytest.raises(
            DataError, match=f"is code, and its folder has no config.json. It lies next to {re.escape(name)}, as in"
        ):
            load(path)
    assert not ran.exists()
    load(code, trusted=True)
    assert ran.exists()


def test_code_in_a_folder_that_cannot_be_listed_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may contain weights."""

    def refused(folder: Path) -> None:
        raise PermissionError(folder)

    (tmp_path / "config.py").touch()
    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(DataError, match="lies next to files that cannot be listed"):
        load(tmp_path / "config.py")


def test_other_code_beside_a_config_json_is_not_run(folder: Path) -> None:
    """config.json belongs to config.py, not to other files."""
    (folder / "config.py").rename(folder / "model.py")
    with pytest.raises(DataError, match="is code. It lies next to best.pth.* Give .*config.json, move"):
        load(folder / "model.py")


def test_configs_that_ship_run_beside_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "configs"
    shipped.mkdir()
    (shipped / "weights.pth").touch()
    (shipped / "mine.py").write_text((CONFIGS / "cifar10_pape.py").read_text())
    monkeypatch.setattr(saved, "CONFIGS", shipped)
    assert load(shipped / "mine.py")


def test_modules_that_a_config_json_names_are_not_imported_unless_told_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "evil_module.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(folder)
    saved.write(folder, saved.read(folder / "config.json") | dict(custom_imports=dict(imports=["evil_module"])))
    for path in ("config.py", "config.json"):
        with pytest.raises(DataError, match=r"module 'evil_module' \(custom_imports\), which executes code") as error:
            load(folder / path)
        assert error.value.option == "--trust-config imports it"
    assert not (folder / "ran").exists()
    load(folder / "config.json", trusted=True)
    assert (folder / "ran").exists()
    load(folder / "config.json")  # it is imported: there is nothing more to run
    sys.modules.pop("evil_module")


@pytest.mark.parametrize("name", ["os.system", "subprocess.call", "evil.Registry", "builtins.exec"])
def test_a_type_is_the_name_of_what_is_registered_and_imports_nothing(folder: Path, name: str) -> None:
    """mmengine would import the module of a dotted name."""
    cfg = saved.read(folder / "config.json")
    for at in ("model", "optimizer", "schedule"):
        saved.write(folder, cfg | {at: dict(type=name, command="true")})
        with pytest.raises(ConfigError, match=f"is called '{name}'"):
            load(folder / "config.json")


BROKEN = {
    "nothing": "",
    "half": '{"digest": "',
    "a list": "[]",
    "no config": json.dumps(dict(digest="")),
    "no digest": json.dumps(dict(config={})),
    "deep": '{"digest": "", "config": ' + '{"a": ' * 100_000,
    "a key that is a list": json.dumps(dict(digest="", config=dict(a=dict(__dict__=[[[1], 2]])))),
    "a pair of three": json.dumps(dict(digest="", config=dict(a=dict(__dict__=[[1, 2, 3]])))),
    "two marks": json.dumps(dict(digest="", config=dict(a=dict(__tuple__=[], __dict__=[])))),
    "no number": json.dumps(dict(digest="", config=dict(a=dict(__float__="x")))),
    "a tuple of nothing": json.dumps(dict(digest="", config=dict(a=dict(__tuple__=None)))),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_damaged_config_json_is_a_sentence(folder: Path, what: str) -> None:
    (folder / "config.json").write_text(BROKEN[what])
    with pytest.raises(ConfigError, match="config.json is damaged: it is not a config that a run wrote"):
        load(folder / "config.json")


def test_a_folder_of_too_many_files_to_check_counts_as_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "MAX_ENTRIES", 2)
    (tmp_path / "config.py").write_text(f"_base_ = [{str(CONFIGS / 'cifar10_pape.py')!r}]\n")
    (tmp_path / "a.txt").touch()
    assert load(tmp_path / "config.py")
    (tmp_path / "b.txt").touch()
    with pytest.raises(DataError, match="lies next to more than 2 files, too many to check for weights"):
        load(tmp_path / "config.py")


@pytest.mark.parametrize("checkpoint", ["noise", "folder", "../T/noise", "../link", "."])
def test_code_is_not_run_with_a_checkpoint_of_its_folder_whatever_that_is(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From whichever working folder: in "folder" for "."."""
    (tmp_path / "T" / "folder").mkdir(parents=True)
    (tmp_path / "T" / "noise").write_bytes(b"no known format")
    (tmp_path / "link").symlink_to(tmp_path / "T" / "noise")
    (tmp_path / "T" / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path / "T" / ("folder" if checkpoint == "." else ""))
    with pytest.raises(DataError, match="is code.* lies next to (noise|folder), the checkpoint that it is used with"):
        load(tmp_path / "T" / "code.py", checkpoint=Path(checkpoint))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("checkpoint", ["work_dirs/x/best.pth", "../elsewhere/best.pth", "missing.pth"])
def test_a_project_with_its_checkpoints_below_it_runs(checkpoint: str, tmp_path: Path) -> None:
    project = tmp_path / "mine"
    (project / checkpoint).parent.mkdir(parents=True, exist_ok=True)
    if "/" in checkpoint:
        torch_archive(project / checkpoint)
    (project / "x.py").write_text(f"_base_ = [{str(CONFIGS / 'cifar10_pape.py')!r}]\nseed = 3 + 4\n")
    assert load(project / "x.py", checkpoint=project / checkpoint).seed == 7


def test_a_config_of_ones_own_is_code_that_runs(tmp_path: Path) -> None:
    """Also if it is called config.py, without a run next to it; data in any format is not weights."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    np.savez(tmp_path / "a.npz", data=np.arange(9), pkl=np.arange(9))
    np.save(tmp_path / "a.npy", np.arange(9))
    np.array([5, ord("{")]).tofile(tmp_path / "labels.bin")  # begins nearly as safetensors do
    np.random.default_rng(0).random((999, 4), np.float32).tofile(tmp_path / "lidar.bin")
    hdf5(tmp_path / "events.h5", "events")
    (tmp_path / "images.pkl").write_bytes(pickle.dumps(dict(data=np.zeros(9), labels=[1, 2])))
    (tmp_path / "names.json").write_text('{"0": "cat"}')
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "classes.txt").write_text("cat\n")
    (tmp_path / "empty").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    zip_with(tmp_path / "photos.zip", "a.png")
    (tmp_path / "config.py").write_text(f"_base_ = [{str(CONFIGS / 'cifar10_pape.py')!r}]\nseed = 3 + 4\n")
    assert load(tmp_path / "config.py").seed == 7


LARGE = {
    "empty lists": json.dumps(dict(digest="", config=dict(a=[[]] * 200_000))),
    "numbers": json.dumps(dict(digest="", config=dict(a=[1] * 200_000))),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_config_of_too_many_values_is_a_sentence_before_it_is_parsed(name: str, folder: Path) -> None:
    """5 million empty lists would take 39 s and 1 GiB."""
    (folder / "config.json").write_text(LARGE[name])
    with pytest.raises(ConfigError, match="config.json has a config of more than 131072 values"):
        load(folder / "config.json")
    with pytest.raises(ConfigError, match="best.pth has a config of more than 131072 values"):
        load_text(f"a = {LARGE[name]}", folder / "best.pth")


HARMFUL = {
    "writes": dict(type="ProfilerHook", json_trace_path="theirs/written.json"),
    "builds": dict(type="PrepareTTAHook", tta_cfg=dict(type="pathlib.Path.touch", self="theirs/written.json")),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_hooks_of_an_untrusted_config_neither_write_files_nor_run_code(tmp_path, name):
    cfg = load(CONFIGS / "mnist_small.py")
    saved.write(tmp_path, cfg.to_dict() | dict(custom_hooks=[HARMFUL[name]]))
    (tmp_path / "config.py").unlink()
    with pytest.raises((DataError, ConfigError), match="names a file to write|ndformer vote"):
        load(tmp_path / "config.json")
