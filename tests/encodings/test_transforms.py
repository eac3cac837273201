"""torch.func over an encoding's weights alone: ensembles by vmap, derivatives by grad and jvp."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.tokens import Where
from tests.encodings.conftest import Model
from tests.encodings.references.all import CASES, allows

ENCODING_PREFIXES = "encoding.", "attention.encoding."  # the weights of an encoding and of its part in a layer
MODEL_PREFIXES = tuple(f"model.{prefix}" for prefix in ENCODING_PREFIXES)

SPARSE = "CPE-voxels"  # a sparse convolution has no batching rule
BACKWARD_ONLY = {
    "LieRE",
    "ComRoPE",
    "SaPE2",
    "LearnableAbsolute",
    "LaPE",
    "PEMixer",
}  # torch or SkewExponential has no forward derivative


NAMES = [name for name, cfg in CASES.items() if allows(cfg, 2) and "joint" not in cfg]


class FixedInputs(torch.nn.Module):
    """A model whose tokens are given: a function of its weights."""

    def __init__(self, cfg: Any, backend: str) -> None:
        super().__init__()
        self.model, self.backend = Model(cfg, 2).double(), backend
        self.where = Where(torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))[None].double(), grid=(3, 4))
        self.x = torch.randn(1, 12, self.model.dim).double()

    def forward(self) -> Tensor:
        return self.model(self.x, self.where, self.backend)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", [name for name in NAMES if name != SPARSE])
def test_weights_alone_can_be_transformed(name: str) -> None:
    """Issue 44.20: vmap over the weights is one model after the other; grad and jvp are one derivative."""
    module = FixedInputs(CASES[name], "dense")
    weights = {n: p.detach() for n, p in module.model.named_parameters() if n.startswith(ENCODING_PREFIXES)}
    weights = {f"model.{n}": p for n, p in weights.items()}
    if not weights:
        pytest.skip(f"{name} has no weights")

    def output(new_weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(module, new_weights)

    others = {n: p + 0.1 * torch.randn_like(p) for n, p in weights.items()}
    both = torch.func.vmap(output)({n: torch.stack([p, others[n]]) for n, p in weights.items()})
    torch.testing.assert_close(both, torch.stack([output(weights), output(others)]))
    slopes = torch.func.grad(lambda new_weights: output(new_weights).sum())(weights)
    steps = {n: torch.randn_like(p) for n, p in weights.items()}
    along = sum((slopes[n] * steps[n]).sum() for n in weights)
    if CASES[name]["type"] not in BACKWARD_ONLY:
        change = torch.func.jvp(output, (weights,), (steps,))[1]
        torch.testing.assert_close(change.sum(), along)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", [name for name in NAMES if name != SPARSE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ensembles_have_gradients_by_torchs_kernel(name: str, dtype: torch.dtype) -> None:
    """Issue 44.14: vmap with a model whose other weights require gradients chose a kernel without those of a bias."""
    module = FixedInputs(CASES[name], "sdpa").to(dtype)
    module.x = module.x.to(dtype)
    weights = {n: p.detach() for n, p in module.named_parameters() if n.startswith(MODEL_PREFIXES)}
    if not weights:
        pytest.skip(f"{name} has no weights")

    def loss(new_weights: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(module, new_weights).square().sum()

    models = [weights, {n: p + 0.1 * torch.randn_like(p) for n, p in weights.items()}]
    stacked = {n: torch.stack([model[n] for model in models]) for n in weights}
    losses = torch.func.vmap(loss)(stacked)
    slopes = torch.func.vmap(torch.func.grad(loss))(stacked)
    module.backend = "dense"
    rtol, atol = (1e-3, 1e-4) if dtype == torch.float32 else (1e-7, 1e-7)
    torch.testing.assert_close(losses, torch.stack([loss(model) for model in models]), rtol=rtol, atol=atol)
    for i, model in enumerate(models):
        alone = torch.func.grad(loss)(model)
        torch.testing.assert_close({n: slope[i] for n, slope in slopes.items()}, alone, rtol=rtol, atol=atol)
