"""The memory of a training process: calculated for any number of processes, or measured in a few steps of one.

Bytes of parameters (with buffers), gradients, optimizer states, the average of the weights (EMA), what DDP or FSDP
adds, and activations: tensors that the forward pass saves for the backward pass. Temporary tensors are not counted.
"""

import itertools
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ndformer.framework.data.batches import Batches, collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.loading import Loader, build_loader
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, find_blocks, parallelize
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import OPTIMIZERS

SAMPLES, STEPS = 8, 3  # of which activations are extrapolated to a batch; of a measurement


def prepare(cfg: Config) -> tuple[Config, TokenModel, Loader]:
    """Return the config with numbers from its data, its model in training mode, and its training batches."""
    cfg, _ = calibrate(cfg)
    torch.manual_seed(cfg.seed)
    model = build_model(cfg).train()
    parallelize(model, Parallel(recompute=cfg.train_cfg.get("recompute", "none")))
    return cfg, model, build_loader(cfg, "train")


def calculate(cfg: Config, model: TokenModel, loader: Loader, processes: int, parallel: Parallel) -> dict[str, int]:
    """Return the bytes of each process, by kind.

    Activations of a few samples, once and twice in a batch, are extrapolated to the batch size.
    """
    sharded = parallel.type == "fsdp"
    size = partial(_shard_size, processes=parallel.sizes(processes)[1] if sharded else 1)
    indices, batch_size = range(len(loader.data)), cfg.train_dataloader.batch_size
    if cfg.train_dataloader.get("batch_tokens"):
        assert isinstance(loader.batch_sampler, Batches)
        indices = next(iter(loader.batch_sampler))
        batch_size = len(indices)
    samples = [loader.data[i] for i in indices[:: -(-len(indices) // min(SAMPLES, batch_size))]]
    single, double = (_forward(model, collate(samples * times))[1] for times in (1, 2))
    if processes > 1 and sharded:
        single, double = (saved - _measure_cast_weights(model) for saved in (single, double))
    return dict(
        parameters=sum(map(size, model.parameters())) + _bytes(model.buffers()),
        gradients=sum(size(parameter) for parameter in model.parameters() if parameter.requires_grad),
        optimizer=sum(map(size, _optimizer_states(cfg, model))),
        ema=sum(map(size, model.state_dict().values())) if cfg.get("ema") else 0,
        communication=_communication(model, sharded) if processes > 1 else 0,
        activations=round(single + (double - single) * (batch_size / len(samples) - 1)),
    )


def measure(cfg: Config, model: TokenModel, loader: Loader) -> dict[str, int]:
    """Train a few steps in this process, and return the bytes that it had at most; `allocated`: by torch, on a GPU."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    ema = EMA(model, **cfg.ema) if cfg.get("ema") else None
    optimizer = build_optimizer(model, cfg.optimizer, cfg.get("param_groups"))
    gradients = activations = 0
    for batch in itertools.islice(iter(loader), STEPS):
        loss, size = _forward(model, batch)
        loss.backward()
        activations = max(activations, size)
        gradients = max(gradients, _bytes(p.grad for p in model.parameters() if p.grad is not None))
        optimizer.step()
        optimizer.zero_grad()
    return dict(
        parameters=_bytes(model.parameters()) + _bytes(model.buffers()),
        gradients=gradients,
        optimizer=_bytes(_tensors(optimizer)),
        ema=_bytes(ema.average.values()) if ema else 0,
        communication=0,
        activations=activations,
    ) | (dict(allocated=torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else {})


def _shard_size(tensor: Tensor, processes: int) -> int:
    """Return the bytes of the largest shard: FSDP splits the first dimension."""
    rows = max(1, tensor.shape[0] if tensor.dim() else 1)
    return tensor.nbytes // rows * -(-rows // processes)


def _optimizer_states(cfg: Config, model: TokenModel, device: str = "meta") -> Iterable[Tensor]:
    """Return the states after a step on parameters without memory, or with memory if the optimizer reads numbers."""
    groups = build_optimizer(model, cfg.optimizer, cfg.get("param_groups")).param_groups
    for group in groups:
        group["params"] = [nn.Parameter(torch.empty_like(parameter, device=device)) for parameter in group["params"]]
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter) if parameter.numel() else None
    optimizer = OPTIMIZERS.create(cfg.optimizer, params=groups)
    try:
        optimizer.step()
    except RuntimeError:
        if device == "cpu":
            raise
        return _optimizer_states(cfg, model, "cpu")
    return _tensors(optimizer)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def _communication(model: TokenModel, sharded: bool) -> int:
    """Return the bytes of DDP's gradient buckets, or of FSDP's collectives at the peak of a backward pass.

    FSDP has two gathered blocks, one of which is fetched ahead, the gradients of one, and those of the block before it
    that are being reduced, in float32; and the parameters outside blocks with their gradients, in float32.
    """
    if not sharded:
        return _bytes(parameter for parameter in model.parameters() if parameter.requires_grad)
    sizes = [_bytes(block.parameters()) for block in find_blocks(model)]
    largest = max(sizes, default=0)
    gathered = 3 * largest // (1 if model.amp is None else 2)
    return gathered + largest + 2 * (_bytes(model.parameters()) - sum(sizes))


def _measure_cast_weights(model: TokenModel) -> int:
    """Return the bytes of the copies of block weights that autocast makes: FSDP gathers such weights in its dtype."""
    if model.amp is None:
        return 0
    return sum(_bytes(p for p in block.parameters() if p.dim() > 1) for block in find_blocks(model)) // 2


def _forward(model: TokenModel, batch: dict[str, Any]) -> tuple[Tensor, int]:
    """Return the loss, and the bytes that the backward pass needs, without the model's own.

    That is what the forward pass saves, and the largest block that the backward pass computes again.
    """
    loss, saved, _ = _measure_saved(model, batch)
    recomputed = {block: vars(block).pop("forward") for block in find_blocks(model) if "forward" in vars(block)}
    if recomputed:
        saved += max(_measure_saved(model, batch)[2])
        for block, forward in recomputed.items():
            block.forward = forward
    return loss, saved


def _measure_saved(model: TokenModel, batch: dict[str, Any]) -> tuple[Tensor, int, list[int]]:
    """Return the loss, the bytes that the forward pass saves, and those of each block."""
    weights = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}  # by address
    marks: list[int] = []  # the bytes before and after each block

    def record(tensor: Tensor) -> Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in weights:
            saved[memory.data_ptr()] = memory.nbytes()
        return tensor

    def mark(*_: Any) -> None:
        marks.append(sum(saved.values()))

    device = next(model.parameters()).device.type
    with ExitStack() as stack:
        for block in find_blocks(model):
            stack.callback(block.register_forward_pre_hook(mark).remove)
            stack.callback(block.register_forward_hook(mark).remove)
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor))
        stack.enter_context(torch.autocast(device, model.amp, enabled=model.amp is not None))
        loss = model.total(model(**model.to_device(batch), mode="loss"))
    return loss, sum(saved.values()), [after - before for before, after in zip(marks[::2], marks[1::2], strict=True)]
