"""Promises about the encoding as a module: construction, ownership, seeds, shared state and torch.compile."""

from collections.abc import Sequence

import torch
from torch import nn

from ndformer.contract.promise import CLOSE_FLOAT32, Broken, Worst, difference, first_line, promise
from ndformer.contract.trial import Trial


@promise("builds and runs")
def runs(tried: Sequence[Trial]) -> str:
    for trial in tried:
        try:
            outputs = trial(*trial.first())
        except Exception as error:
            vars(error)["__notes__"] = [f"in {trial.dims}-D"]  # add_note() of Python 3.11
            raise
        if not outputs.isfinite().all():
            raise Broken(f"outputs are NaN or infinite ({trial.dims}-D): is something divided by 0?")
    dims = [trial.dims for trial in tried]
    sentence = f"in {', '.join(map(str, dims))} position dimensions"
    for other in {1, 2, 3, 4} - set(dims):
        try:
            Trial(tried[0].make, other)
        except ValueError as refusal:
            return f"{sentence}; in {other} it says: {first_line(refusal)}"
    return sentence


@promise("layers are the caller's")
def ownership(tried: Sequence[Trial]) -> str:
    for trial in tried:
        encoding = trial.another()
        layers = [encoding.layer(0, 2), encoding.layer(0, 2)]
        names: dict[int, str] = {}
        together = nn.ModuleDict({"encoding": encoding, "layer": layers[0], "another": layers[1]})
        for name, value in together.state_dict(keep_vars=True).items():
            other = names.setdefault(id(value), name)
            if other != name:
                raise Broken(
                    f"'{other}' and '{name}' are one tensor, twice in a checkpoint: do not keep what layer() returns, "
                    "nor the encoding or its modules in a layer; what layers share goes through the state"
                )
        modules = [module for owner in (encoding, *layers) for module in owner.modules()]
        if len({id(module) for module in modules}) < len(modules):
            raise Broken(
                "layer() returns a module that the encoding or another layer holds too: make a new one each time, and "
                "do not keep it"
            )
    return "layer() makes a new module each time; no weight is stored twice"


@promise("same seed, same numbers")
def seeded(tried: Sequence[Trial]) -> str:
    for trial in tried:
        first, second = (Trial(trial.make, trial.dims) for _ in range(2))
        second_state = second.state_dict()
        for name, value in first.state_dict().items():
            if not torch.equal(value, second_state[name]):
                raise Broken(
                    f"'{name}' differs between two encodings built after one torch.manual_seed: draw it with torch, "
                    "not with numpy or random"
                )
        if difference(first(*first.first()), second(*second.first())) > 0:
            raise Broken(
                "two encodings built after one torch.manual_seed have different outputs. Draw numbers only with torch"
            )
    return "torch.manual_seed decides every number"


@promise("one state for all layers")
def shared(tried: Sequence[Trial]) -> str:
    worst = Worst()
    for trial in tried:
        x, where = trial.first()
        expected = trial(x, where)
        state = trial.encoding.prepare(where)
        trial.encoding.prepare(trial.first(2 * trial.samples[0].r + 1)[1])
        for use in ("after another batch was prepared", "used again"):
            worst.compare(trial.with_state(x, where, state), expected, f"{use}, {trial.dims}-D")
    worst.require(
        f"a state gives other outputs later, by {worst}: return all that layers need from tables(), store "
        "nothing in self, and do not change a state in place",
        limit=0,
    )
    return "one state serves all layers, and no layer changes it"


@promise("torch.compile")
def compiles(tried: Sequence[Trial]) -> str:
    trial = min(tried, key=lambda t: abs(t.dims - 2)).cast(torch.float32)
    x, where = trial.first() if trial.encoding.needs_grid else trial.padded()
    full = trial.encoding.fullgraph
    torch._dynamo.reset()
    try:
        y = torch.compile(trial, fullgraph=full, backend="eager")(x.requires_grad_(), where)
        y.sum().backward()
    except Exception as error:
        reason = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
        raise Broken(
            f"it does not fit in one graph ({reason[:200]}): no .item(), .tolist(), print, numpy or Python branch on "
            "the values of tensors"
        ) from error
    finally:
        torch._dynamo.reset()
    error = difference(y, trial(x, where))
    if error > CLOSE_FLOAT32:
        raise Broken(f"compiled outputs differ by {error:.1e}: is a tensor changed in place, or kept in self?")
    return "one graph, forward and backward" if full else "in pieces, as declared (fullgraph = False)"
