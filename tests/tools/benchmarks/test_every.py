"""Every program in tools/ is run by a test: here are the benchmarks that have no file of their own, at tiny sizes."""

import ast
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.programs import ROOT, run
from tools import pack_shards
from tools.benchmarks import (
    attention,
    backends,
    driving,
    events,
    loader,
    mixed_sizes,
    molecules,
    pipeline,
    selection,
    shards,
    step,
)

ELSEWHERE = {"gpu", "soak", "browser", "kernels", "matrix", "devkit", "headless"}  # not part of the suite
FEW = ["--tokens", "17", "--repeats", "2", "--device", "cpu", "--out", "out"]


def imported() -> set[str]:
    """Return the programs that tests of the suite import."""
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text()
        if "from tools" in text and ELSEWHERE.isdisjoint(file.relative_to(ROOT).parts):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tools"):
                    found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


def test_every_program_has_a_test() -> None:
    files = [file for file in (ROOT / "tools").rglob("*.py") if "__main__" in file.read_text()]
    programs = {".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    assert "tools.benchmarks.step" in programs
    assert programs <= imported()


@pytest.fixture
def output_of(tmp_path, monkeypatch, capsys):
    """Return a function that runs a program in an empty folder and returns its output."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()

    def output_of(main, *arguments: str) -> str:
        main(list(arguments))
        return capsys.readouterr().out

    yield output_of
    torch.set_num_threads(threads)


@pytest.mark.parametrize("small", [(), ("--small",)])
def test_training_steps_of_the_engine_beside_those_by_hand(output_of, monkeypatch, small):
    monkeypatch.setattr(step, "VIT_S", replace(step.VIT_S, depth=1))
    monkeypatch.setattr(step, "WARM", 0)
    lines = output_of(step.main, "--batch", "1", "--rounds", "1", *small).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["engine", "by", "engine"]
    assert float(lines[-1].split()[4]) > 0


def test_the_pipeline_has_a_default(output_of, monkeypatch):
    rows = []
    monkeypatch.setattr(pipeline, "prepare_data", lambda cfg, sample: rows.append((cfg.sample_data, sample)))
    monkeypatch.setattr(pipeline, "row", lambda cfg, batches, threads: "1 | 1 | 1 | 1 |")
    assert "| mnist_small --sample 1 | 1" in output_of(pipeline.main)
    assert rows == [("mnist", True)]


@pytest.mark.parametrize("suite", ["attention", "block", "memory"])
def test_attention(output_of, suite):
    encodings = ["--encodings", "NoPE", "PaPE(m=2)"]
    assert f"wrote out/{suite}_cpu.json" in output_of(attention.main, suite, *encodings, *FEW)
    assert Path(f"out/{suite}_cpu.png").stat().st_size > 0


def test_attention_in_bf16_is_also_compared_with_flash_attention(output_of):
    assert "(1 = no position, flash, " in output_of(attention.main, "attention", "--amp", "--backend", "sdpa", *FEW)
    written = json.loads(Path("out/attention_cpu_bf16.json").read_text())
    assert [result["base"] for result in written["results"]] == ["no position", "no position, flash"]
    assert (written["amp"], written["backend"]) == (True, "sdpa")


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["block", "memory"])
def test_backends_and_bf16_reach_every_suite(output_of, suite):
    with pytest.raises(ValueError, match="no attention backend"):
        output_of(attention.main, suite, "--backend", "none", *FEW)
    given = ["--amp", "--backend", "dense", "--encodings", "NoPE", "PaPE(m=2)"]
    assert f"wrote out/{suite}_cpu_bf16.json" in output_of(attention.main, suite, *given, *FEW)


def test_driving(output_of, monkeypatch):
    monkeypatch.setattr(driving, "SIZE", (32, 64))
    given = ["--points", "50", "--repeats", "1", "--amp", "--backend", "sdpa", "--out", "out"]
    assert "blocks, PaPE" in output_of(driving.main, *given)
    assert Path("out/driving_cpu_bf16.json").is_file()


def test_mixed_sizes(output_of, monkeypatch):
    monkeypatch.setattr(mixed_sizes, "IMAGES", 2)
    monkeypatch.setattr(mixed_sizes, "find_spec", lambda name: None)
    assert "packed" in output_of(mixed_sizes.main, "--encodings", "NoPE", "--depth", "1", "--repeats", "1")


def test_molecules(output_of):
    given = ["--encodings", "NoPE", "PaPERI", "--molecules", "2", "--atoms", "3", "--repeats", "1"]
    head, _, *rows = [line.strip("| ").split(" | ") for line in output_of(molecules.main, *given).splitlines()]
    assert head[3:] == ["embedding, %", "attention, %", "MLP, %", "head, %", "optimizer, %", "rest, %"]
    assert [row[0] for row in rows] == ["NoPE", "PaPERI"]
    for _, atoms, ratio, *shares in rows:
        assert float(atoms.replace(",", "")) > 0 < float(ratio)
        assert sum(map(int, shares)) == pytest.approx(100, abs=3)


@pytest.mark.slow
def test_events(output_of):
    assert "| numpy |" in output_of(events.main, "--events", "1000", "--rounds", "1")


@pytest.mark.slow
def test_loader(output_of):
    lines = output_of(loader.main, "--images", "2", "--workers", "0", "--seconds", "0.01").splitlines()
    assert lines[-1].startswith("0 workers, batches")
    assert lines[-1].endswith("images/s")


@pytest.mark.slow
def test_shards_beside_the_folder_that_was_packed(output_of, monkeypatch):
    for split, name in itertools.product(("train", "val", "test"), "ab"):
        (folder := Path("photos", split, name)).mkdir(parents=True)
        for i in range(2):
            pixels = np.random.default_rng([len(split), ord(name), i]).integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    run(pack_shards.main, "imagefolder", "packed", "--data-root", "photos")
    lines = output_of(shards.main, "photos", "packed", "--rounds", "1").splitlines()
    assert [line.split()[1] for line in lines[-2:]] == ["first", "later"]


def test_selection(output_of):
    given = ["--sides", "8", "--radii", "1", "--heads", "1", "--width", "16", "--repeats", "2"]
    assert "times as fast" in output_of(lambda words: selection.main(selection.parser().parse_args(words)), *given)


@pytest.mark.slow
def test_backends_are_compared_with_what_auto_takes(output_of):
    shapes = [backends.Shape("PaPE", 1, 2, 48, 16, 2, extent) for extent in (4, 400)]
    lines = output_of(lambda given: backends.main(given, shapes), "--repeats", "1").splitlines()
    assert len(lines) == 3 + 2 * len(shapes)
    assert all(line.count("*") == 1 for line in lines[3:])
