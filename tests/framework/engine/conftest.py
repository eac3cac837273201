from pathlib import Path

import pytest

CIFAR = Path(__file__).parents[3] / "configs" / "cifar10_pape.py"


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def on_cifar(write):
    """A config over configs/cifar10_pape.py."""
    return lambda text: write(f"_base_ = [{str(CIFAR)!r}]\n{text}")
