"""Class tokens of the configs of the PaPE paper's sets: at the origin in reproductions alone."""

from pathlib import Path

import pytest

from ndformer.framework.engine.config.load import load

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize(
    "config, modality, small",
    [
        ("ucf101_pape", "video", True),
        ("dvsgesture_pape", "events", True),
        ("imagenet1k_pape", "image", True),
        ("lpc_actions", "video", False),
    ],
)
def test_a_class_token_is_at_the_origin_in_reproductions_alone(config, modality, small):
    path = CONFIGS / f"{config}.py"
    plain = load(path, sample=small).model.modalities[modality]
    paper = load(path, ["preset=paper"], sample=small).model.modalities[modality]
    assert plain.get("class_at", "nowhere") in ("nowhere", "auto")
    assert plain.get("start", 0) == 0
    assert (paper.class_at, paper.get("start", 0)) == ("origin", 0 if modality == "events" else 1)
    if small:  # the whole recipe is the paper's
        assert load(path).model.modalities[modality].class_at == "origin"
