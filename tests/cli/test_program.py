"""The frame of all programs."""

import pickle
import subprocess
import sys
import warnings

import pytest
import torch

from ndformer.cli import program
from ndformer.framework.errors import ConfigError, DataError
from tests.programs import refusal

WHERE = " (NDFORMER_DEBUG=1 shows where)"


@pytest.mark.parametrize(
    "error, sentence",
    [
        (ConfigError("model.x: nothing reads it"), "model.x: nothing reads it"),
        (TypeError("what?"), "what?" + WHERE),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero" + WHERE),
        (KeyError("classes"), "KeyError: 'classes'" + WHERE),
        (IndexError("list index out of range"), "IndexError: list index out of range" + WHERE),
        (AssertionError(), "AssertionError" + WHERE),
        (RecursionError("too deep"), "RecursionError: too deep" + WHERE),
        (RuntimeError("a failed\nframe #0: c10\nframe #1: at"), "RuntimeError: a failed" + WHERE),
        (
            MemoryError(),
            "there is not enough memory: lower batch_size, or make the model or its inputs smaller" + WHERE,
        ),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes.\nframe"),
            "there is not enough memory ([enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes.): lower ",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "there is not enough memory (CUDA out of memory. Tried"),
    ],
)
def test_an_error_is_one_sentence(monkeypatch, error, sentence):
    def main():
        raise error

    assert refusal(main).startswith(sentence)
    monkeypatch.setenv("NDFORMER_DEBUG", "1")
    with pytest.raises(type(error)):
        program.run(main)


def test_ctrl_c_is_exit_code_130():
    def main():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        program.run(main)
    assert end.value.code == 130


def test_a_warning_is_one_sentence_too(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tools/predict.py"])
    plain, said = warnings.formatwarning, []
    program.run(
        lambda: said.append(warnings.formatwarning(UserWarning("a.dat holds no events"), UserWarning, "x.py", 1))
    )
    program.run(lambda: said.append(warnings.formatwarning("old", DeprecationWarning, "x.py", 1)))
    assert said[0] == "predict: a.dat holds no events\n"
    assert said[1].startswith("x.py:1: DeprecationWarning: old")  # of use to developers
    assert warnings.formatwarning is plain


def test_a_program_names_the_option_that_helps_and_the_error_alone_does_not():
    error = DataError("data/mnist is missing", "--sample works without it")
    assert str(error) == "data/mnist is missing"

    def main():
        raise error

    assert refusal(main) == "data/mnist is missing; --sample works without it"
    assert pickle.loads(pickle.dumps(error)).option == error.option  # from a loader's worker too


TINY = """
import torch
from ndformer.cli import program
torch.set_num_threads(2)
program.run(lambda: print(int((torch.full((2**20,), 1e-20) * 1e-20).count_nonzero())))
"""


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor knows no such switch")
def test_in_a_program_a_weight_below_1e_38_is_0_on_all_threads():
    """Computing with denormals may take five times as long."""
    assert program.run(lambda: None) is None
    assert (torch.tensor(1e-20) * 1e-20).item() > 0  # whoever calls a program's main goes on as before
    said = subprocess.run([sys.executable, "-c", TINY], capture_output=True, text=True, check=True)
    assert int(said.stdout) == 0
