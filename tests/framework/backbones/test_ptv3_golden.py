"""The published network, stage by stage: numbers made once with the official code (see the README beside them)."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.tokens import TokenSet, Where
from ndformer.integrations.importers import pointcept

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT.parent / "shared" / "golden" / "ptv3_tiny.pt"
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="no ../shared/golden/ptv3_tiny.pt")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return torch.load(GOLDEN, weights_only=True)


@pytest.fixture
def model(golden: dict[str, Any]) -> PTv3:
    cfg, weights, left = pointcept.backbone(golden["state_dict"], head_dim=16)
    assert left == []
    assert len(weights) == len(golden["state_dict"])
    official = golden["config"]
    for name in ("enc_depths", "enc_channels", "dec_depths", "dec_channels", "mlp_ratio"):
        assert cfg[name] == official[name]
    assert (cfg["enc_heads"], cfg["dec_heads"]) == (official["enc_num_head"], official["dec_num_head"])
    del cfg["type"]
    network = PTv3(**cfg, grid_size=0.03, window=official["enc_patch_size"][0])
    network.load_state_dict(weights)
    return network.eval()


@torch.no_grad()
@pytest.mark.parametrize("given_grid", [True, False])
def test_every_stage_is_the_published_one(golden: dict[str, Any], model: PTv3, given_grid: bool) -> None:
    inputs = golden["inputs"]
    seen: dict[str, Any] = {}

    def note(name: str) -> Any:
        return lambda module, given, out: seen.update({name: (out, given[1])})

    model.stem.register_forward_hook(lambda module, given, out: seen.update(embedding=(out, None)))
    for s, stage in enumerate(model.encoder):
        stage.register_forward_hook(note(f"enc{s}"))
    for s, stage in enumerate(model.decoder):
        stage.register_forward_hook(note(f"dec{3 - s}"))
    counts = inputs["offset"].diff(prepend=torch.zeros(1, dtype=torch.int64))
    sample = torch.repeat_interleave(counts)[None]
    tokens = TokenSet(inputs["feat"][None], Where(inputs["coord"][None], segment=sample))
    out = model(tokens, inputs["grid_coord"][None] if given_grid else None)

    assert seen.keys() == golden["stages"].keys()
    for name, (features, level) in seen.items():
        official = golden["stages"][name]
        torch.testing.assert_close(features, official["feat"], rtol=0, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
        if level is None:
            continue
        assert torch.equal(level.codes, official["serialized_code"])
        assert torch.equal(level.orders, official["serialized_order"])
        assert torch.equal(level.sites.grid.int(), official["grid_coord"])
        assert torch.equal(level.sites.sample, official["batch"])
        torch.testing.assert_close(level.positions, official["coord"])
    torch.testing.assert_close(out.features[0], golden["final_feat"], rtol=0, atol=1e-4)
