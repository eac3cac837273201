import pytest

from ndformer.framework.errors import ConfigError
from tests.programs import CONFIGS

CIFAR = CONFIGS / "cifar10_pape.py"


def refusal(function, *arguments, **named):
    """Return the ConfigError of a call as text."""
    with pytest.raises(ConfigError) as caught:
        function(*arguments, **named)
    return str(caught.value)


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
