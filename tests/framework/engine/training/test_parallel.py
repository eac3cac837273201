"""Several processes train as one does: DDP, FSDP and HSDP, with uneven batches, BatchNorm, EMA, clipping and bf16."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.engine.training import nonfinite
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, clip_grad_norm, parallelize
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import MODELS
from ndformer.framework.system import processes
from tests.spawned import spawned

SAMPLES = 12  # in a batch of all processes


def transformer(encoding: Any, **options: Any) -> dict[str, Any]:
    return dict(type="Transformer", dim=33, depth=2, heads=3, position_dims=2, encoding=encoding, **options)


def build(modalities: dict[str, Any], backbone: dict[str, Any], head: dict[str, Any]) -> TokenModel:
    torch.manual_seed(0)
    model = MODELS.create(dict(type="TokenModel", modalities=modalities, backbone=backbone, head=head))
    head_weight = next((p for name, p in model.named_parameters() if name.endswith("head.linear.weight")), None)
    if head_weight is not None:
        torch.nn.init.trunc_normal_(head_weight, std=0.1)
    return model


def classifier(encoding: str = "PaPE") -> TokenModel:
    image = dict(type="ImagePatches", patch=4, class_token=True)
    head = dict(type="Classifier", classes=3, label_smoothing=0.1, hidden=(9,))
    return build(dict(image=image), transformer(dict(type=encoding), layer_scale=0.5), head)


def images(step: int) -> list[Any]:
    torch.manual_seed(step)
    return [(torch.randn(3, 12, 12), dict(label=int(torch.randint(3, ())))) for _ in range(SAMPLES)]


def ptv3(encoding: str = "PaPE") -> TokenModel:
    sizes = dict(enc_depths=(1, 2), enc_channels=(9, 18), enc_heads=(1, 3), dec_depths=(1,), dec_channels=(9,))
    backbone = dict(
        type="PTv3",
        in_channels=3,
        grid_size=0.1,
        window=16,
        dec_heads=(1,),
        drop_path=0.0,
        encoding=dict(type=encoding),
        **sizes,
    )
    points = dict(type="Points")
    return build(dict(points=points), backbone, dict(type="TokenSegmenter", classes=4, lovasz=0.0))


def clouds(step: int) -> list[Any]:
    torch.manual_seed(step)
    counts = torch.randint(20, 60, (SAMPLES,)).tolist()
    return [(torch.rand(n, 6), dict(labels=torch.randint(-1, 4, (n,)))) for n in counts]


def detector() -> TokenModel:
    neck = dict(type="SimpleFeaturePyramid", width=8)
    head = dict(type="Detector", classes=3, neck=neck, patch=8)
    return build(dict(image=dict(type="ImagePatches", patch=8)), transformer(dict(type="AxialRoPE")), head)


def boxes(step: int) -> list[Any]:
    torch.manual_seed(step)

    def sample(i: int) -> dict[str, Tensor]:
        corner = 20 * torch.rand(i % 4, 2)
        return dict(
            boxes=torch.cat([corner, corner + 8 + 12 * torch.rand(i % 4, 2)], 1), labels=torch.arange(i % 4) % 3
        )

    return [(torch.randn(3, 32, 32), sample(i)) for i in range(SAMPLES)]


def batch(samples: list[Any], name: str, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """The samples of this process, in part `part` of an accumulated batch."""
    size = len(samples) // processes.count() // parts
    first = part * size * processes.count() + processes.rank() * size
    inputs, data_samples = zip(*samples[first : first + size])
    alike = all(x.shape == inputs[0].shape for x in inputs)
    return dict(inputs={name: torch.stack(inputs) if alike else list(inputs)}, data_samples=list(data_samples))


def train(
    make: Callable[[], TokenModel],
    data: Callable[[int], list[Any]],
    parallel: Any = "ddp",
    steps: int = 20,
    amp: torch.dtype | None = None,
    accumulate: int = 1,
    layer_decay: float | None = 0.8,
    **options: Any,
) -> dict[str, Any]:
    """Train as the training step does; return the losses and what the averaged model predicts."""
    model = make()
    name = next(iter(model.modalities))
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel, **options)), amp)
    cfg = dict(type="AdamW", lr=1e-3, weight_decay=0.05, eps=1e-4)
    optimizer = build_optimizer(model, cfg, dict(layer_decay=layer_decay, no_decay=True))
    average = EMA(model, 0.9)
    losses, norms = [], []
    for step in range(steps):
        total = torch.zeros(())
        for part in range(accumulate):
            torch.manual_seed(step)
            with torch.autocast("cpu", amp, enabled=amp is not None):
                loss = model.total(running(**batch(data(step), name, part, accumulate), mode="loss")) / accumulate
            total += processes.mean(loss.detach())
            loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert nonfinite.finite(gradients)
        largest = nonfinite.largest(gradients).item()
        norms.append((clip_grad_norm(model.parameters(), 0.5).item(), largest))
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
        losses.append(total.item())
    model.eval()
    with torch.no_grad(), average.applied(model):
        outputs = model(batch(data(99), name)["inputs"])
    outputs = getattr(outputs, "logits", outputs)
    outputs = torch.cat(list(outputs)) if isinstance(outputs, list) else outputs
    buffers = {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    sharded = sum(processes.is_sharded(p) for p in model.parameters())
    return dict(losses=losses, norms=norms, outputs=outputs, buffers=buffers, sharded=sharded)


def assert_alike(one: dict[str, Any], several: list[dict[str, Any]], tolerance: float = 1e-5) -> None:
    for found in several:
        torch.testing.assert_close(torch.tensor(found["losses"]), torch.tensor(one["losses"]), atol=tolerance, rtol=0)
        torch.testing.assert_close(torch.tensor(found["norms"]), torch.tensor(one["norms"]), atol=5e-4, rtol=1e-3)
        torch.testing.assert_close(found["buffers"], one["buffers"], atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(found["buffers"], several[0]["buffers"], atol=0, rtol=0)
    outputs = torch.cat([found["outputs"] for found in several])
    torch.testing.assert_close(outputs, one["outputs"], atol=1e-3, rtol=1e-3)


CASES = dict(image=(classifier, images), points=(ptv3, clouds), boxes=(detector, boxes))
HSDP = dict(type="fsdp", replicate=2)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one(case: str) -> None:
    one = train(*CASES[case])
    for parallel in ("ddp", "fsdp"):
        found = spawned(2, train, *CASES[case], parallel)
        assert all(f["sharded"] > 0 for f in found) == (parallel == "fsdp")
        assert_alike(one, found)
