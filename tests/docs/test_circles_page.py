"""docs/reference/encodings/circles.md: its adapter of a series with hours and months, in a model."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS, MODALITIES
from tests.docs.pages import DOCS, code_of
from tests.encodings.test_circles import NAMES

PAGE = (DOCS / "reference" / "encodings" / "circles.md").read_text()
(READINGS,) = code_of(PAGE)


@pytest.fixture
def readings() -> Iterator[None]:
    """Register the adapter of the page for one test."""
    MODALITIES.get("ImagePatches")  # finds the others
    before = MODALITIES.module_dict.pop("Readings", None)  # of another test in this process
    exec(READINGS, {})
    yield
    del MODALITIES.module_dict["Readings"]
    if before is not None:
        MODALITIES.module_dict["Readings"] = before


@pytest.mark.parametrize("encoding", ["AxialRoPE", "PaPE", "ALiBi", "Sincos"])
def test_whole_turns_of_hour_and_month_change_nothing(encoding: str, readings: None) -> None:
    torch.manual_seed(0)
    body = dict(type="Transformer", dim=24, depth=2, heads=2, position_dims=3, encoding=dict(type=encoding))
    model: Any = TokenModel(
        dict(series=dict(type="Readings", channels=2)), body, dict(type="Classifier", classes=3, pool="mean")
    ).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    times = torch.stack([torch.randint(24, (2, 9)), torch.randint(12, (2, 9)), torch.arange(18).view(2, 9)], -1)
    values, turns = torch.randn(2, 9, 2), torch.randint(-100, 101, times.shape)

    def outputs(*periods: int) -> torch.Tensor:
        return model(torch.cat([values, times + turns * torch.tensor(periods)], -1))

    assert outputs(0, 0, 0).shape == (2, 3)
    assert torch.equal(outputs(24, 12, 0), outputs(0, 0, 0))
    assert not torch.allclose(outputs(24, 12, 30), outputs(0, 0, 0))  # the day is a line


def test_the_page_has_the_encodings_that_accept_circles() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in row.split("|")[1].replace(" ", "").split(",")}
    assert named & set(ENCODINGS.module_dict) == set(NAMES)
