"""tools/benchmarks/gpu.py: each step runs in tiny sizes on the CPU, and a step that hangs is ended."""

import json
import time
from pathlib import Path

import pytest

from ndformer.framework.errors import DataError
from tools.benchmarks import gpu, gpu_steps


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_the_steps_have_the_names_that_the_program_knows() -> None:
    assert list(gpu_steps.STEPS) == gpu.STEPS


@pytest.mark.slow
@pytest.mark.parametrize("name", gpu_steps.STEPS)
def test_every_step_measures_without_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The program for GPUs is run nowhere else, so renames in the library could break it unnoticed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NDFORMER_DEVICE", "cpu")
    gpu_steps.run_step(name, tmp_path, dry=True)
    found = lines(tmp_path)
    assert [line for line in found if "error" in line] == []
    assert any(line.get("ms", 0) > 0 for line in found)


@pytest.mark.slow
def test_steps_warm_up_side_by_side_and_write_into_one_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is measured in a new process, whether it was ready in time or not."""
    monkeypatch.setattr(gpu, "WARM_UP", 0.0)
    conductor = gpu.Conductor(tmp_path, dry=True, minutes=9)
    conductor.measure(["environment", "packed"], tmp_path)
    printed = capsys.readouterr().out
    assert [name in printed for name in ("environment: measured", "packed: measured")] == [True, True], printed
    rows = {line["row"]: line for line in lines(tmp_path) if line["step"] == "packed"}
    assert rows["PaPE, fused, packed"]["ratios"]["no encoding, sdpa, padded"] > 0
    assert "no encoding, sdpa, padded (again)" in rows


def test_a_step_that_hangs_is_killed(tmp_path: Path) -> None:
    begin = time.monotonic()
    child = gpu.Child(["-c", "import time; print('READY', flush=True); time.sleep(60)"], tmp_path / "log.txt", tmp_path)
    while not child.is_ready():
        time.sleep(0.05)
    assert not child.has_ended()
    child.begin()
    child.wait(0.1)
    assert child.has_ended()
    assert time.monotonic() - begin < 30


def test_without_a_gpu_it_says_how_to_try_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(DataError, match="got none"):
        gpu.main(["--out", str(tmp_path)])
