"""docs/new-modality.md: its code is short, learns in seconds, and the mistakes it lists get the sentences it shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.programs.files import Preparation
from ndformer.framework.pictures import samples
from ndformer.framework.registry import DATASETS, MODALITIES, MODELS, TRANSFORMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new-modality.md").read_text()
CHIRPS, CONFIG, PACK, FILES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
(COMMAND,) = re.findall(r"^    PYTHONPATH=\. python NDFORMER/(.*)$", PAGE, re.MULTILINE)
SENTENCES = re.findall(r"^\| [^|]*\| `([^`]+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def nothing_stays():
    """What is registered here is forgotten again."""
    registries = [MODALITIES, DATASETS, TRANSFORMS]
    for registry, name in zip(registries, ("ImagePatches", "CIFAR10", "PackImage")):
        registry.get(name)
    known = [dict(registry.module_dict) for registry in registries]
    yield
    for registry, names in zip(registries, known):
        registry.module_dict.clear()
        registry.module_dict.update(names)


def model_and_data(chirps: str = CHIRPS, config: str = CONFIG) -> tuple[Any, Any, dict[str, Any]]:
    page: dict[str, Any] = {}
    exec(chirps, page)
    exec(config, page)
    return MODELS.create(page["model"]), DATASETS.create(page["train_dataloader"]["dataset"]), page


def test_it_is_under_40_lines():
    lines = [line for line in (CHIRPS + CONFIG).splitlines() if line.strip()]
    assert len(lines) < 40


def test_a_program_that_knows_nothing_of_it_trains_it_above_chance(tmp_path):
    (tmp_path / "chirps.py").write_text(CHIRPS)
    (tmp_path / "chirps_config.py").write_text(CONFIG)
    tool, *arguments = COMMAND.split()
    ran = subprocess.run(
        [sys.executable, ROOT / tool, *arguments],
        env=os.environ | dict(PYTHONPATH=".", OMP_NUM_THREADS="1"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    results = json.loads((tmp_path / "work_dirs" / "chirps_config" / "results.json").read_text())
    assert results["dataset"] == "Chirps"
    assert results["test"]["accuracy"] > 0.8  # one of three by chance


def swapped(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


MISTAKES = [
    lambda chirps, config: (swapped(chirps, "dim: int, frame", "frame").replace("+ 1, dim)", "+ 1, 48)"), config),
    lambda chirps, config: (
        re.sub(r"return TokenSet\((.*?), Where.*", r"return \1", chirps),
        config,
    ),
    lambda chirps, config: (swapped(chirps, "+ 1, dim)", "+ 1, 32)"), config),
    lambda chirps, config: (chirps, swapped(config, "position_dims=1", "position_dims=2")),
    lambda chirps, config: (
        re.sub(r"return dict\(inputs=.*", "return dict(sound=sound, label=number % 3)", chirps),
        config,
    ),
    lambda chirps, config: (swapped(chirps, "self.classes =", "names ="), config),
    lambda chirps, config: (swapped(chirps, "inputs=dict(sound=", "inputs=dict(sounds="), config),
]


@pytest.mark.parametrize("mistake, sentence", list(zip(MISTAKES, SENTENCES)))
def test_its_mistakes_get_the_sentences_it_shows(mistake, sentence):
    def first_step():
        model, data, page = model_and_data(*mistake(CHIRPS, CONFIG))
        batch = collate([data[i] for i in range(page["train_dataloader"]["batch_size"])])
        model(**batch, mode="loss")

    with pytest.raises((TypeError, ValueError, KeyError)) as error:
        first_step()
    assert str(error.value) == sentence


def test_it_shows_a_sentence_for_each_mistake():
    assert len(SENTENCES) == len(MISTAKES)


def test_packed_by_a_transform_it_is_drawn_and_the_same():
    _, plain, page = model_and_data()
    sound = plain[5]["inputs"]["sound"]
    exec(PACK, page)
    page["Chirps"].read = lambda self, n, read=page["Chirps"].read: dict(
        sound=read(self, n)["inputs"]["sound"].numpy(), label=n % 3
    )
    packed = DATASETS.create(dict(type="Chirps", data_root="made_up", transforms=[dict(type="PackSound")]))
    raw = DATASETS.create(dict(type="Chirps", data_root="made_up"))
    torch.testing.assert_close(packed[5]["inputs"]["sound"], sound)
    assert packed[5]["data_sample"] == dict(label=packed.labels[5], index=5)
    drawn = samples.OfDataset(packed).picture(5)
    assert (drawn.shape, drawn.dtype, drawn.max()) == ((33, 16, 3), np.uint8, 255)
    np.testing.assert_array_equal(drawn, samples.OfDataset(raw).picture(5))


def test_its_files_are_predicted(tmp_path):
    head = "    def __init__(self, dim"
    model, data, _ = model_and_data(swapped(CHIRPS, head, f"{FILES}\n{head}"))
    np.save(tmp_path / "a.npy", data[0]["inputs"]["sound"].numpy())
    prepared = Preparation(Config(dict(test_dataloader=dict(dataset=dict(type="Chirps")))), model)
    batch = prepared(prepared.samples_in([tmp_path])[0])
    torch.testing.assert_close(batch["inputs"]["sound"], data[0]["inputs"]["sound"][None])
    assert batch["data_samples"] == [dict(label=-1, index=0, path=str(tmp_path / "a.npy"))]
    assert len(model.eval().val_step(batch)) == 1


def test_without_them_files_are_refused():
    model, _, _ = model_and_data()
    with pytest.raises(RuntimeError, match=r"Sound opens no files: give it `endings` and open\(path\)"):
        Preparation(Config(dict(test_dataloader=dict(dataset=dict(type="Chirps")))), model)
