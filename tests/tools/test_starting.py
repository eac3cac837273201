"""Imports before --help and errors, --version, a closed output pipe, and devices."""

import os
import subprocess
import sys

import pytest
import torch

import ndformer
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.system import devices, opencv, pipes
from tests.programs import ROOT, SMALL

TOOLS = sorted((ROOT / "tools").glob("*.py"))
HEAVY = ["sympy", "torch.distributed.fsdp", "torch._dynamo", "mmengine.runner", "mmengine.optim"]
HEAVY += ["cv2", "matplotlib", "numba", "h5py", "tonic"]
STARTS = """
import runpy, sys
for line in sys.argv[1:]:
    sys.argv = line.split()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        print(f"ended with {end.code}")
print("imported", *sys.modules)
"""


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    environment = os.environ | dict(PYTHONPATH=str(ROOT))
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def started(*lines: str) -> list[str]:
    """Return the output of programs that run in one process, and at its end the imported modules."""
    return ran("-c", STARTS, *lines).stdout.splitlines()


@pytest.mark.slow
def test_help_imports_nothing_that_takes_seconds_and_every_program_says_its_version():
    said = started(*(f"{tool} {option}" for tool in TOOLS for option in ("--help", "--version")))
    version = f"ndformer {ndformer.__version__}, torch {torch.__version__}, Python"
    assert sum(line.startswith(version) for line in said) == len(TOOLS)
    assert said.count("ended with 0") == 2 * len(TOOLS)
    assert not set(HEAVY) & set(said[-1].split())


@pytest.mark.slow
def test_neither_does_a_mistake_in_a_config():
    train, predict = ROOT / "tools" / "train.py", ROOT / "tools" / "predict.py"
    said = started(
        f"{train} configs/mnist_pap.py --sample",
        f"{train} configs/mnist_pape.py --cfg-options train_cfg.clip_grad=-1 optimizer.type=AdamV",
        f"{predict} mnist_pape nowhere.pth a.png --cfg-options model.backbone.depht=2",
    )
    assert "did you mean 'mnist_pape.py'?" in said[0]
    assert "train_cfg.clip_grad: takes a number above 0" in "".join(said)
    assert "model.backbone.depht: nothing reads it, did you mean depth" in "".join(said)
    assert not set(HEAVY) & set(said[-1].split())


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.stem)
def test_every_program_prints_its_errors_as_a_sentence(tool):
    *_, last = tool.read_text().splitlines()
    assert last.strip() in ("run(main)", "program.run(main)") or tool.stem in ("check_encoding", "show_encoding")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["-m", "ndformer"], ["tools/print_config.py", "mnist_pape"]])
def test_a_program_whose_reader_goes_away_ends_without_a_word(words):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        environment = os.environ | dict(PYTHONPATH=str(ROOT))
        command = [sys.executable, *words]
        end = subprocess.run(command, env=environment, cwd=ROOT, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (end.returncode, end.stderr) == (pipes.CLOSED, b"")


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("gpu", "device must be cpu, cuda, cuda:1 or mps, got 'gpu'"),
        ("cuda:99", "device .*cuda:99"),
        ("cuda:1:2", "device must be cpu, cuda, cuda:1 or mps, got 'cuda:1:2'"),
    ],
)
def test_a_device_that_is_not_there_is_a_sentence(name, sentence):
    with pytest.raises(DataError, match=sentence):
        devices.parse(name)


def test_models_are_built_on_the_device_that_is_asked_for_and_inputs_follow(monkeypatch):
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: True)  # it would be taken
    monkeypatch.setenv(devices.VARIABLE, "cpu")
    assert devices.select() == torch.device("cpu")
    model = build_model(load(config_path("mnist_pape"), SMALL))
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    model.to("meta")
    samples = [dict(label=1, boxes=(torch.zeros(1), 3))]
    batch = dict(inputs=dict(image=torch.zeros(2, 1, 28, 28)), data_samples=samples)
    moved = model.to_device(batch)
    assert moved["inputs"]["image"].is_meta
    assert moved["data_samples"] is samples  # what a head wants of them, it sends
    sent = Head().targets(samples, torch.device("meta"))
    assert sent[0]["boxes"][0].is_meta
    assert sent[0]["label"] == 1


def test_mmengines_own_loops_can_train_a_model():
    torch.manual_seed(0)
    model = build_model(load(config_path("mnist_pape"), SMALL))
    before = model.head.state_dict()["linear.weight"].clone()
    wrapper = opencv.import_module("mmengine.optim").OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    batch = dict(inputs=dict(image=torch.rand(2, 1, 28, 28)), data_samples=[dict(label=1), dict(label=2)])
    said = model.train_step(batch, wrapper)
    assert said["loss"].isfinite()
    assert not torch.equal(before, model.head.state_dict()["linear.weight"])
