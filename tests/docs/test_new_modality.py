"""docs/how-to/new-modality.md: its code is short and learns; the errors that it shows are real."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.pictures import samples
from ndformer.framework.registry import DATASETS, MODALITIES, MODELS, TRANSFORMS
from tests.docs.pages import DOCS, ROOT, code_of
from tests.explored import told
from tests.programs import run as start

PAGE = (DOCS / "how-to" / "new-modality.md").read_text()
CHIRPS, CONFIG, PACK, FILES = code_of(PAGE)
(COMMAND,) = re.findall(r"^    PYTHONPATH=\. ndformer (train.*)$", PAGE, re.MULTILINE)
HEAD = "    def __init__(self, dim"
WITH_FILES = CHIRPS.replace(HEAD, f"{FILES}\n{HEAD}")
SENTENCES = re.findall(r"^\| [^|]*\| `([^`]+)` \|$", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def nothing_stays():
    """Undo registrations after each test."""
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the page's files, after its training command."""
    folder = tmp_path_factory.mktemp("chirps")
    (folder / "chirps.py").write_text(CHIRPS)
    (folder / "chirps_config.py").write_text(CONFIG)
    tool, *arguments = COMMAND.split()
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / f"{tool}.py", *arguments],
        env=os.environ | dict(PYTHONPATH=f".{os.pathsep}{ROOT}", OMP_NUM_THREADS="1"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (folder / "chirps.py").write_text(WITH_FILES)
    np.save(folder / "a.npy", np.sin(np.arange(1024.0)).astype(np.float32))
    return folder


@pytest.mark.slow
def test_a_program_that_knows_nothing_of_it_trains_it_above_chance(trained):
    results = json.loads((trained / "work_dirs" / "chirps_config" / "results.json").read_text())
    assert results["dataset"] == "Chirps"
    assert results["test"]["accuracy"] > 0.8  # one of three by chance


@pytest.mark.slow
def test_its_report_shows_attention_although_nothing_draws_its_samples(trained):
    shown = json.loads((trained / "work_dirs/chirps_config/shown/shown.json").read_text())
    assert [one["kind"] for one in shown if one["file"]] == ["attention", "attention", "encoding"]
    (missing,) = (one["says"] for one in shown if not one["file"])
    assert missing.startswith(
        "Not drawn: nothing draws samples of sound: give the transform that packs them `input_name`"
    )


BEST = "work_dirs/chirps_config/best.pth"
PROGRAMS = [  # every other program that takes a config or a run, and what it prints at its end
    ("test", f"chirps_config.py {BEST} --out out.csv", "out.csv"),
    ("predict", f"chirps_config.py {BEST} a.npy", "a.npy  "),
    ("show_attention", f"chirps_config.py {BEST} 3", "attention.png"),
    ("show_attention", f"chirps_config.py {BEST} a.npy --layer 2 --query 3", "attention.png"),
    ("show_attention", f"chirps_config.py {BEST} 0-3 --z-scores", "z_scores.png"),
    ("explore", f"chirps_config.py {BEST} 3 a.npy", "explorer.html"),
    ("show_tokens", "chirps_config.py a.npy", "  time: 0 to 15, 16 values\ntokens.png"),
    ("show_encoding", "--config chirps_config.py", ""),
    ("check_modality", "chirps.py", "no head"),
    ("check_data", "chirps_config.py", "test: 200 samples, 0 bad"),
    ("check_coverage", "chirps_config.py", ".png"),
    ("probe_positions", f"chirps_config.py {BEST} --samples 60", "probe_positions.png"),
    ("print_config", "chirps_config.py", "sample_data = None"),
    ("export", f"chirps_config.py {BEST} exported/a.safetensors", "exported/a.safetensors"),
    ("report", "work_dirs/chirps_config", "report.html"),
    ("report", "work_dirs/chirps_config --samples 2 --trust-config --out again.html", "again.html"),
]
REFUSED = [  # programs that need what this modality does not have, and the sentence about it
    ("browse_dataset", "chirps_config.py", "nothing draws samples of sound: give the transform that packs them"),
    ("test", f"chirps_config.py {BEST} --show-dir seen", "nothing draws samples of sound"),
    ("export", f"chirps_config.py {BEST} a.onnx", "graphs: expected a model of images, got Sound"),
    (
        "extrapolate",
        f"chirps_config.py {BEST} --sizes 32",
        "other sizes are for models whose only input is an image, got sound",
    ),
    ("vote", f"chirps_config.py {BEST}", "voting needs point clouds"),
]


@pytest.fixture
def program(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained)
    monkeypatch.syspath_prepend(trained)

    def run(name, words):
        start(import_module(f"tools.{name}").main, *words.split())
        return capsys.readouterr().out

    yield run
    sys.modules.pop("chirps", None)


@pytest.mark.slow
@pytest.mark.parametrize("name, words, printed", PROGRAMS, ids=[f"{n} {w}" for n, w, _ in PROGRAMS])
def test_every_program_runs_on_it(name, words, printed, program):
    assert printed in program(name, words)


@pytest.mark.slow
@pytest.mark.parametrize("name, words, sentence", REFUSED, ids=[f"{n} {w}" for n, w, _ in REFUSED])
def test_programs_that_cannot_run_on_it_say_why(name, words, sentence, program):
    with pytest.raises(RuntimeError, match=re.escape(sentence)):
        program(name, words)


@pytest.mark.slow
def test_the_explorer_names_its_axis(program, trained):
    program("explore", f"chirps_config.py {BEST} 3 --out named.html")
    about, _ = told((trained / "named.html").read_text())
    assert about["files"][0]["sides"][0]["axes"] == ["time"]


def swapped(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


MISTAKES = [
    lambda chirps, config: (swapped(chirps, "dim: int, frame", "frame").replace("+ 1, dim)", "+ 1, 48)"), config),
    lambda chirps, config: (re.sub(r"return TokenSet\((.*?), Where.*", r"return \1", chirps), config),
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
    packed = DATASETS.create(dict(type="Chirps", data_root="generate_sample", transforms=[dict(type="PackSound")]))
    raw = DATASETS.create(dict(type="Chirps", data_root="generate_sample"))
    torch.testing.assert_close(packed[5]["inputs"]["sound"], sound)
    assert packed[5]["data_sample"] == dict(label=packed.labels[5], index=5)
    drawn = samples.DatasetSource(packed).picture(5)
    assert (drawn.shape, drawn.dtype, drawn.max()) == ((33, 16, 3), np.uint8, 255)
    np.testing.assert_array_equal(drawn, samples.DatasetSource(raw).picture(5))


def test_its_files_are_predicted(tmp_path):
    model, data, _ = model_and_data(WITH_FILES)
    np.save(tmp_path / "a.npy", data[0]["inputs"]["sound"].numpy())
    prepared = Preparation(Config(dict(test_dataloader=dict(dataset=dict(type="Chirps")))), model)
    batch = prepared(prepared.samples_in([tmp_path])[0])
    torch.testing.assert_close(batch["inputs"]["sound"], data[0]["inputs"]["sound"][None])
    assert batch["data_samples"] == [dict(label=-1, index=0, path=str(tmp_path / "a.npy"))]
    assert len(model.eval().val_step(batch)) == 1


def test_without_them_files_are_refused():
    model, _, _ = model_and_data()
    with pytest.raises(RuntimeError, match=r"Sound opens no files: give it `endings` and open\(path\)"):
        Preparation(Config(dict(test_dataloader=dict(dataset=dict(type="Chirps")))), model).samples_in([ROOT])
