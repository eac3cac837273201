"""PlatonicTransformer with PaPE, GTA and AxialRoPE: gradients by the formulas, graphs, 16 bit, padding and packing."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ndformer.framework.backbones.platonic import PlatonicTransformer, rotation_group
from ndformer.framework.tokens import TokenSet, Where
from tests.encodings.references.all import REFERENCES

SIZES = {"square": (2, 4), "tetrahedron": (3, 12)}
HEADS, WIDTH, N = 2, 12, 5  # of a frame
ENCODINGS: list[dict[str, Any]] = [dict(type="AxialRoPE"), dict(type="PaPE", m=3), dict(type="GTA")]
NAMES = [cfg["type"] for cfg in ENCODINGS]


def model(cfg: dict[str, Any], frames: Any = "square", **options: Any) -> Any:
    torch.manual_seed(0)
    dims, G = SIZES[frames]
    built = PlatonicTransformer(WIDTH * G, 1, HEADS * G, dims, cfg, frames=frames, **options)
    for weight in built.parameters():
        nn.init.normal_(weight, std=0.3)
    return built.eval()


def expected_output(ours: Any, cfg: dict[str, Any], weights: dict[str, Tensor], x: Tensor, r: Tensor) -> Tensor:
    """One block, frame by frame: y_g = sum_h w(g^-1 h) x_h, and attention with the encoding at R_g^-1 r; x (N, D)."""
    R = list(rotation_group({4: "square", 12: "tetrahedron"}[ours.frames]))
    G, dims = len(R), r.shape[1]
    block = {name.removeprefix("blocks.0."): w for name, w in weights.items()}
    place = dict(heads=HEADS, width=WIDTH // HEADS, dims=dims, dim=WIDTH, index=0, depth=1)
    of_encoding = {name.removeprefix("attention."): w for name, w in block.items() if ".encoding." in name}
    everywhere = torch.ones(len(x), dtype=torch.bool)

    def linear(name: str, parts: list[Tensor]) -> list[Tensor]:
        index = [[next(k for k in range(G) if torch.equal(R[k], R[g].T @ R[h])) for h in range(G)] for g in range(G)]
        weight, bias = block[f"{name}.weight"], block[f"{name}.bias"]
        return [sum((parts[h] @ weight[index[g][h]].T for h in range(G)), bias) for g in range(G)]

    def normed(name: str, parts: list[Tensor]) -> list[Tensor]:
        return [
            nn.functional.layer_norm(p, [WIDTH], block[f"{name}.weight"], block[f"{name}.bias"], 1e-5) for p in parts
        ]

    state = [x.unflatten(1, (G, WIDTH)).mean(1)] * G
    inputs, attended = normed("norm1", state), []
    for g, qkv in enumerate(linear("attention.qkv", inputs)):
        reference = REFERENCES[cfg["type"]](SimpleNamespace(cfg=cfg, **place), of_encoding, r @ R[g], everywhere, None)
        q, k, v = qkv.unflatten(1, (3, HEADS, -1)).unbind(1)
        outputs = []
        for h in range(HEADS):
            logits = reference.content(h, q[:, h], k[:, h]) / (WIDTH // HEADS) ** 0.5
            logits = logits + reference.bias(h, inputs[g], q[:, h], k[:, h])
            outputs.append(reference.collected(h, logits.softmax(1), v[:, h]))
        attended.append(torch.cat(outputs, 1))
    state = [s + y for s, y in zip(state, linear("attention.proj", attended))]
    hidden = [nn.functional.gelu(y) for y in linear("mlp.0", normed("norm2", state))]
    state = [s + y for s, y in zip(state, linear("mlp.2", hidden))]
    return torch.stack(state).mean(0).repeat(1, G)


@pytest.mark.parametrize("frames", SIZES)
@pytest.mark.parametrize("cfg", ENCODINGS, ids=NAMES)
def test_output_and_gradients_are_those_of_the_formulas(cfg: dict[str, Any], frames: str) -> None:
    ours, (dims, G) = model(cfg, frames, final_norm=False).double(), SIZES[frames]
    x, r, towards = torch.randn(N, WIDTH * G).double(), 2 * torch.randn(N, dims).double(), torch.randn(N, WIDTH * G)
    weights = {name: w.detach().clone().requires_grad_() for name, w in ours.named_parameters()}
    exact_x, own_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = expected_output(ours, cfg, weights, exact_x, r)
    gradients = torch.autograd.grad((expected * towards).sum(), [exact_x, *weights.values()])
    y = ours(TokenSet(own_x[None], Where(r[None]))).features[0]
    (y * towards).sum().backward()
    assert (y - expected).abs().max() < 1e-10
    actual = {"x": own_x.grad, **{name: w.grad for name, w in ours.named_parameters()}}
    for name, gradient in zip(["x", *weights], gradients):
        assert (actual[name] - gradient).abs().max() <= 1e-10 * max(1, gradient.abs().max()), name


class FromTensors(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, r: Tensor, valid: Tensor) -> Tensor:
        return self.network(TokenSet(x, Where(r, valid=valid))).features


def inputs(dims: int, G: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(2, N, WIDTH * G), 2 * torch.randn(2, N, dims), torch.arange(N) < torch.tensor([[N], [3]])


@pytest.mark.parametrize("kind", ["compile", "export"])
@pytest.mark.parametrize("cfg", ENCODINGS[1:], ids=NAMES[1:])
def test_a_model_is_one_graph(cfg: dict[str, Any], kind: str) -> None:
    network, given = FromTensors(model(cfg)), inputs(*SIZES["square"])
    torch.compiler.reset()
    if kind == "export":
        graph: Any = torch.export.export(network, given).module()
    else:
        graph = torch.compile(network, fullgraph=True, backend="aot_eager")
    real = given[2]
    torch.testing.assert_close(graph(*given)[real], network(*given)[real], rtol=1e-4, atol=1e-5)
    if kind == "compile":
        found = []
        for forward in (graph, network):
            network.zero_grad()
            forward(*given)[real].square().sum().backward()
            found.append([p.grad for p in network.parameters()])
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("cfg", ENCODINGS, ids=NAMES)
def test_autocast_to_bf16_stays_near_and_nearly_invariant(cfg: dict[str, Any]) -> None:
    network, given = FromTensors(model(cfg)), inputs(*SIZES["square"])
    x, r, valid = given
    exact, turned = network(*given)[valid], r @ rotation_group("square")[1].float().T
    with torch.autocast("cpu", torch.bfloat16):
        rounded = network(*given)[valid]
        rotated = network(x, turned, valid)[valid]
        rounded.float().square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())
    scale = exact.abs().max()
    assert (rounded - exact).abs().max() < 0.05 * scale
    assert (rotated - rounded).abs().max() < 0.05 * scale


@pytest.mark.parametrize("cfg", ENCODINGS[1:], ids=NAMES[1:])
def test_padded_and_packed_samples_are_as_alone(cfg: dict[str, Any]) -> None:
    ours = model(cfg).double()
    x, r, valid = (t.double() if t.is_floating_point() else t for t in inputs(*SIZES["square"]))
    both = ours(TokenSet(x, Where(r, valid=valid))).features
    segment = torch.tensor([[0] * N + [1] * 3])
    packed = TokenSet(torch.cat([x[0], x[1, :3]])[None], Where(torch.cat([r[0], r[1, :3]])[None], segment=segment))
    together = ours(packed).features[0]
    for row, count in enumerate((N, 3)):
        alone = ours(TokenSet(x[row : row + 1, :count], Where(r[row : row + 1, :count]))).features[0]
        assert (both[row, :count] - alone).abs().max() < 1e-10
        assert (together[segment[0] == row] - alone).abs().max() < 1e-10
