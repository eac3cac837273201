"""Small models and samples for runs of several processes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.engine.training import nonfinite
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, clip_grad_norm, parallelize
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import MODELS
from ndformer.framework.system import processes

SAMPLES = 12  # in a batch of all processes
Data = Callable[[int], list[Any]]  # the samples of a step


def transformer(encoding: Any, **options: Any) -> dict[str, Any]:
    sizes = dict(dim=33, depth=2, heads=3, position_dims=2) | options
    return dict(type="Transformer", encoding=encoding, **sizes)


def build(modalities: dict[str, Any], backbone: dict[str, Any], head: dict[str, Any], **options: Any) -> TokenModel:
    torch.manual_seed(0)
    model = MODELS.create(dict(type="TokenModel", modalities=modalities, backbone=backbone, head=head, **options))
    head_weight = next((p for name, p in model.named_parameters() if name.endswith("head.linear.weight")), None)
    if head_weight is not None:
        torch.nn.init.trunc_normal_(head_weight, std=0.1)
    return model


def classifier(encoding: str = "PaPE", dim: int = 33, hidden: tuple[int, ...] = (9,)) -> TokenModel:
    image = dict(type="ImagePatches", patch=4, class_token=encoding not in ("LearnableAbsolute", "CPE"))
    pool = "class" if image["class_token"] else "mean"
    head = dict(type="Classifier", classes=3, label_smoothing=0.1, hidden=hidden, pool=pool)
    return build(dict(image=image), transformer(dict(type=encoding), layer_scale=0.5, dim=dim), head)


def images(step: int) -> list[Any]:
    torch.manual_seed(step)
    return [(torch.randn(3, 12, 12), dict(label=int(torch.randint(3, ())))) for _ in range(SAMPLES)]


def ptv3(encoding: str = "PaPE") -> TokenModel:
    sizes: dict[str, Any] = dict(
        enc_depths=(1, 2), enc_channels=(9, 18), enc_heads=(1, 3), dec_depths=(1,), dec_channels=(9,)
    )
    sizes |= dict(in_channels=3, grid_size=0.1, window=16, dec_heads=(1,), drop_path=0.0)
    backbone = dict(type="PTv3", encoding=dict(type=encoding), **sizes)
    return build(dict(points=dict(type="Points")), backbone, dict(type="TokenSegmenter", classes=4))


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
        box = torch.cat([corner, corner + 8 + 12 * torch.rand(i % 4, 2)], 1)
        return dict(boxes=box, labels=torch.arange(i % 4) % 3)

    return [(torch.randn(3, 32, 32), sample(i)) for i in range(SAMPLES)]


def regressor() -> TokenModel:
    """A model without a class token, whose parameter of such tokens is empty."""
    head = dict(type="TensorRegressor", classes=3, readout=["mean", "sum", "dipole"])
    encoding = transformer(dict(type="PaPERI"), position_dims=3)
    return build(dict(molecules=dict(type="Atoms")), encoding, head)


def molecules(step: int) -> list[Any]:
    torch.manual_seed(step)
    counts = torch.randint(3, 9, (SAMPLES,)).tolist()
    atoms = [torch.cat([torch.randint(1, 9, (n, 1)), 3 * torch.randn(n, 3)], 1) for n in counts]
    return [(rows, dict(targets=torch.randn(3).numpy())) for rows in atoms]


def batch(samples: list[Any], name: str, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Return the samples of this process, in part `part` of an accumulated batch."""
    size = len(samples) // processes.count() // parts
    first = part * size * processes.count() + processes.rank() * size
    inputs, data_samples = zip(*samples[first : first + size])
    alike = all(x.shape == inputs[0].shape for x in inputs)
    return dict(inputs={name: torch.stack(inputs) if alike else list(inputs)}, data_samples=list(data_samples))


class Run:
    """A training of optimizer steps as the trainer does them."""

    def __init__(
        self,
        make: Callable[[], TokenModel],
        data: Data,
        parallel: Any = "ddp",
        amp: torch.dtype | None = None,
        accumulate: int = 1,
        layer_decay: float | None = 0.8,
        **options: Any,
    ) -> None:
        self.model, self.data, self.accumulate = make(), data, accumulate
        self.model.amp, self.name = amp, next(iter(self.model.modalities))
        self.running = parallelize(self.model, Parallel.from_config(dict(parallel=parallel, **options)), amp)
        cfg = dict(type="AdamW", lr=1e-3, weight_decay=0.05, eps=1e-4)
        self.optimizer = build_optimizer(self.model, cfg, dict(layer_decay=layer_decay, no_decay=True))
        self.average = EMA(self.model, 0.9)
        self.losses: list[float] = []
        self.norms: list[tuple[float, float]] = []

    def step(self, before_update: Callable[[], None] = lambda: None) -> None:
        number, total, amp = len(self.losses), torch.zeros(()), self.model.amp
        for part in range(self.accumulate):
            torch.manual_seed(number)
            samples = batch(self.data(number), self.name, part, self.accumulate)
            with torch.autocast("cpu", amp, enabled=amp is not None):
                loss = self.model.total(self.running(**samples, mode="loss")) / self.accumulate
            total += processes.mean(loss.detach())
            loss.backward()
        largest = nonfinite.largest(p.grad for p in self.model.parameters() if p.grad is not None)
        assert largest.isfinite()
        self.norms.append((clip_grad_norm(self.model.parameters(), 0.5).item(), largest.item()))
        before_update()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.model)
        self.losses.append(total.item())
