"""The contract of datasets, packs, adapters and heads, which all programs rely on.

ndformer check_modality runs it on user-defined classes; docs/how-to/new-modality.md and docs/how-to/new-task.md explain
how to write them.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.contract.promise import CLOSE_FLOAT32, Broken, NotApplicable, Result, difference, promise
from ndformer.framework.adapter import Adapter
from ndformer.framework.answer import Answer
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.heads.head import Head
from ndformer.framework.pictures.samples import packs
from ndformer.framework.registry import METRICS
from ndformer.framework.tokens import TokenSet, Where


@dataclass
class Parts:
    """The classes under test: a dataset, its adapters and maybe a head."""

    data: Dataset
    dim: int  # width of the adapters' tokens
    adapters: dict[str, Adapter]  # by input name
    head: Head | None = None
    features: Callable[[dict[str, Any]], TokenSet] | None = None  # a model's tokens of a batch's inputs, for the head

    def packed(self, i: int) -> dict[str, Any]:
        return self.data[i % len(self.data)]

    def batch(self) -> dict[str, Any]:
        """Return a batch of two samples."""
        return collate([self.packed(0), self.packed(1)])

    def adapter_tokens(self, name: str, batch: dict[str, Any]) -> TokenSet:
        """Return the tokens of one adapter."""
        adapter, inputs = self.adapters[name], batch["inputs"]
        return adapter(inputs[name], **{extra: inputs[extra] for extra in adapter.extra_inputs if extra in inputs})

    def tokens(self, batch: dict[str, Any]) -> TokenSet:
        """Return the input of the head; random tokens in a plane if there is no adapter."""
        if self.features is not None:
            return self.features(batch["inputs"])
        if self.adapters:
            return self.adapter_tokens(next(iter(self.adapters)), batch)
        axis, rows = torch.arange(4.0), len(batch["data_samples"])
        return TokenSet(torch.randn(rows, 16, self.dim), Where(torch.cartesian_prod(axis, axis)[None], grid=(4, 4)))


@promise("samples are read")
def samples(parts: Parts) -> str:
    data = parts.data
    if not len(data) == len(data.labels) == len(data.records) > 0:
        raise Broken(f"index() gave {len(data.records)} records and {len(data.labels)} labels: one of each per sample")
    sample = parts.packed(0)
    for key, kind in (("inputs", dict), ("data_sample", dict)):
        if not isinstance(sample.get(key), kind):
            raise Broken(f"a sample has no `{key}`, a dict: read() or the last transform gives it")
    loose = [name for name, value in sample["inputs"].items() if not isinstance(value, Tensor)]
    if loose:
        raise Broken(f"the input {loose[0]} is no tensor, but {type(sample['inputs'][loose[0]]).__name__}")
    return f"{len(data)} of {len(data.classes)} classes, with {', '.join(sample['inputs'])}"


@promise("same seed, same samples")
def repeatable(parts: Parts) -> str:
    for i in (0, len(parts.data) - 1):
        first, second = parts.packed(i), parts.packed(i)
        for name, value in first["inputs"].items():
            if not torch.equal(value, second["inputs"][name]):
                raise Broken(f"sample {i} has another {name} when it is read again: draw from the `rng` that is given")
    return "a sample is the same when it is read again"


@promise("travels to workers")
def travels(parts: Parts) -> str:
    pickle.loads(pickle.dumps(parts.data))
    parts.batch()
    return "pickles and collates"


@promise("pictures")
def pictures(parts: Parts) -> str:
    names = []
    for pack in packs(parts.data.transforms):
        image = pack.picture(parts.packed(0), 64)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise Broken(f"{_name(pack)}.picture() gave {image.dtype} {image.shape}: (H, W, 3) uint8 is drawn")
        names.append(_name(pack))
    if not names:
        raise NotApplicable("no Pack among its transforms")
    return f"drawn by {', '.join(names)}"


@promise("tokens")
def tokens(parts: Parts) -> str:
    descriptions = []
    batch = parts.batch()
    for name, adapter in parts.adapters.items():
        token_set = parts.adapter_tokens(name, batch)
        if not isinstance(token_set, TokenSet):
            raise Broken(
                f"{_name(adapter)} gave {type(token_set).__name__}: return TokenSet(features, Where(positions))"
            )
        B, N, C = token_set.features.shape
        if (2, parts.dim) != (B, C):
            raise Broken(f"{_name(adapter)} gave features {(B, N, C)} of 2 samples, which are (2, N, {parts.dim})")
        place = token_set.where.positions
        if not place.isfinite().all() or place.dtype not in (torch.float32, torch.float64):
            raise Broken(f"{_name(adapter)} gave positions of {place.dtype}, which are float32 or finer, and finite")
        if len(adapter.axes) not in (0, place.shape[2]):
            raise Broken(
                f"{_name(adapter)}.axes names each axis of its positions, got {len(adapter.axes)} names for "
                f"{place.shape[2]} dimensions. Name {place.shape[2]}."
            )
        with torch.autocast("cpu", torch.bfloat16):
            if not torch.equal(parts.adapter_tokens(name, batch).where.positions, place):
                raise Broken(f"{_name(adapter)} gives other positions under autocast: compute them in float32")
        descriptions.append(f"{name}: {N} in {place.shape[2]} dimensions")
    if not descriptions:
        raise NotApplicable("no adapter")
    return "; ".join(descriptions)


@promise("alone as among others")
def alone(parts: Parts) -> str:
    batch, first = parts.batch(), collate([parts.packed(0)])
    for name, adapter in parts.adapters.items():
        adapter.eval()  # batch norm in training would depend on all samples
        both, single = parts.adapter_tokens(name, batch), parts.adapter_tokens(name, first)
        real = single.where.real
        n = single.features.shape[1]
        mask = torch.ones(n, dtype=torch.bool) if real is None else real[0]
        error = difference(both.features[0, :n][mask], single.features[0][mask])
        if error > CLOSE_FLOAT32:
            raise Broken(f"{_name(adapter)}: a sample's tokens differ by {error:.0e} where another is in the batch")
    if not parts.adapters:
        raise NotApplicable("no adapter")
    return "the other samples of a batch change nothing"


@promise("learns")
def learns(parts: Parts) -> str:
    if parts.head is None:
        raise NotApplicable("no head")
    batch = parts.batch()
    losses = parts.head.loss(parts.tokens(batch), parts.head.targets(batch["data_samples"], torch.device("cpu")))
    if not isinstance(losses.get("loss"), Tensor) or losses["loss"].dim() or not losses["loss"].isfinite():
        raise Broken(f"{_name(parts.head)}.loss() gives dict(loss=...), one finite number, got {losses.get('loss')}")
    losses["loss"].backward()
    idle = [name for name, p in parts.head.named_parameters() if p.requires_grad and p.grad is None]
    if idle:
        raise Broken(f"{_name(parts.head)}.{idle[0]} gets no gradient: take it out, or let the loss depend on it")
    return f"a loss of {float(losses['loss'].detach()):.3g}, with gradients"


@promise("answers")
def answers(parts: Parts) -> str:
    if parts.head is None:
        raise NotApplicable("no head")
    batch = parts.batch()
    with torch.no_grad():
        predictions = parts.head.eval().predict(parts.tokens(batch), batch["data_samples"])
    kinds = ", ".join(_name(answer) for answer in predictions)
    if len(predictions) != 2 or not all(isinstance(answer, Answer) for answer in predictions):
        raise Broken(f"{_name(parts.head)}.predict() gives an Answer for each of 2 samples, got {kinds or 'none'}")
    pickle.loads(pickle.dumps(predictions))
    classes, answer = parts.data.classes, predictions[0]
    rows = answer.rows(classes)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Broken(f"{_name(answer)}.rows() gives a list of dicts, got {rows!r:.60}")
    json.dumps(rows)
    words = answer.words(classes, 3, 0.0), answer.verdict(classes, 0.0), float(answer.mistakes(0.0))
    named = dict(targets=classes) if METRICS.get(answer.metric).takes_targets else {}
    metric: Metric = METRICS.create(dict(type=answer.metric, **named))
    try:
        metric.quantity(metric.main)
    except ValueError as error:
        raise Broken(str(error)) from None
    metric.process(batch, predictions)
    values = metric.compute_metrics(metric.results)
    if metric.main not in values:
        measured = ", ".join(values)
        raise Broken(f"{answer.metric}.compute_metrics() must return its main value '{metric.main}', got {measured}")
    return f"{_name(answer)}, tabled, printed ({words[0]:.60}) and read by {answer.metric}"


PROMISES = [samples, repeatable, travels, pictures, tokens, alone, learns, answers]


def check_parts(parts: Parts) -> Iterator[Result]:
    """Yield one result per promise, up to the first failure, which later promises would repeat."""
    for promised in PROMISES:
        result = promised(parts)
        yield result
        if result.passed is False:
            return


def _name(part: Any) -> str:
    return type(part).__name__
