"""TokenModel: modality -> backbone -> head, one class for every task."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ndformer.framework.adapter import Adapter
from ndformer.framework.answer import Answer
from ndformer.framework.data.mixer import Mixer
from ndformer.framework.encoding.composed import class_place
from ndformer.framework.errors import NothingLeftError, UnknownNameError, nearest
from ndformer.framework.heads.head import Head
from ndformer.framework.registry import BACKBONES, HEADS, MIXERS, MODALITIES, MODELS
from ndformer.framework.registry.ranges import Filled, Names, NonNegative
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system.autocast import autocast
from ndformer.framework.system.devices import sent
from ndformer.framework.tokens import TokenSet, Where, join


@MODELS.register_module()
class TokenModel(nn.Module):
    """Inputs by modality become token sets; the backbone lets them attend; the head answers. `mix` changes training
    batches (MixUp, CutMix) before they become tokens.

    One head: the modalities of a sample are joined into one token set, each with an embedding of its own; a sample may
    lack any of them. A head per modality, dict(image=dict(type=...), points=...): each batch is of one modality, and
    the same blocks serve all; a loss counts as often as `loss_weights` says, once where they say nothing.

    In plain code, model(x) is what the head says of a batch, as its forward() has it: logits (B, classes) of images
    (B, C, H, W), say, with gradients. x is what the adapter takes, a tensor or a list of them; with several modalities
    a dict(image=..., points=...).
    """

    def __init__(
        self,
        modalities: Annotated[dict[str, dict[str, Any]], Filled(), Names()],
        backbone: dict[str, Any],
        head: dict[str, Any],
        mix: dict[str, Any] | None = None,
        loss_weights: dict[str, NonNegative] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = BACKBONES.create(backbone)
        dim = self.backbone.dim  # what heads get
        # what adapters make; a pyramid takes fewer than it gives
        self.width = getattr(self.backbone, "in_channels", dim)
        self.modalities = nn.ModuleDict({name: _adapter(cfg, self.width) for name, cfg in modalities.items()})
        self.position_dims = backbone.get("position_dims")
        for name, module in self.modalities.items():
            adapter = cast(Adapter, module)
            self._check_dims(name, adapter, adapter.position_dims)
            if adapter.class_at == "auto":
                adapter.class_at = class_place(backbone.get("encoding"))
        self.in_turn = "type" not in head and set(head) == set(modalities)
        if self.in_turn:
            self.head = nn.ModuleDict({name: HEADS.create(cfg, dim=dim) for name, cfg in head.items()})
        else:
            self.head = HEADS.create(head, dim=dim)
        if len(modalities) > 1 and not self.in_turn:
            self.kinds = nn.Parameter(torch.empty(len(modalities), self.width))
            nn.init.trunc_normal_(self.kinds, std=0.02)
        self.loss_weights = {} if loss_weights is None else dict(loss_weights)
        for name in self.loss_weights:
            if not self.in_turn or name not in modalities:
                known = ", ".join(modalities) if self.in_turn else "none, as all modalities have one head in common"
                raise UnknownNameError(
                    f"loss_weights are by task, got '{name}'{nearest(name, modalities)} Tasks: {known}"
                )
        self.mix: Mixer | None = None if mix is None else MIXERS.create(mix)
        self.amp: torch.dtype | None = None  # what evaluation computes in, as training does; set by the engine
        self.masked: set[str] = set()  # modalities that it does as if no sample had them

    @property
    def told(self) -> set[str]:
        """The inputs that are no modality, and that adapters are told."""
        return {name for adapter in self.modalities.values() for name in cast(Adapter, adapter).told}

    @property
    def joined(self) -> list[str]:
        """The modalities that become one token set."""
        return [] if self.in_turn or len(self.modalities) == 1 else list(self.modalities)

    def forward(
        self,
        inputs: Tensor | list[Tensor] | dict[str, Any],
        data_samples: list[dict[str, Any]] | None = None,
        mode: Literal["loss", "predict", "tensor"] = "tensor",
    ) -> Any:
        """`loss`: dict(loss=...) by what `data_samples` say is true; `predict`: an Answer for each of them; `tensor`:
        what the head says, as tensors."""
        inputs = self._by_name(inputs)
        if not inputs:
            raise ValueError(
                "the samples of this batch have no inputs: a dataset's last transform, or its read(), gives "
                f"dict(inputs=dict({next(iter(self.modalities))}=tensor), data_sample=dict(label=number))"
            )
        space = [self._one_of(inputs)] if self.in_turn else []
        head = cast(Head, self.head[space[0]] if isinstance(self.head, nn.ModuleDict) else self.head)
        if mode == "loss":
            targets = head.targets(data_samples or [], next(self.parameters()).device)
            if self.mix is not None:
                inputs, targets = self.mix(inputs, targets)
            losses = head.loss(self.features(inputs), targets)
            times = self.loss_weights.get(space[0], 1.0) if space else 1.0
            return losses if times == 1.0 else {name: times * loss for name, loss in losses.items()}
        with self._precision():
            tokens = self.features(inputs)
            if mode == "tensor":
                return head(tokens)
            answers = head.predict(tokens, data_samples or [])
            strange = next((one for one in answers if not isinstance(one, Answer)), None)
            if strange is not None:
                raise TypeError(
                    f"{type(head).__name__}.predict() gave {_short(strange)} and not an Answer: return "
                    "Label(sample=sample, scores=...) for each sample, or an Answer of your own"
                )
            return [replace(answer, task=space[0]) for answer in answers] if space else answers

    def features(self, inputs: Tensor | list[Tensor] | dict[str, Any]) -> TokenSet:
        """The tokens of a batch behind the backbone, which the head is given."""
        inputs = self._by_name(inputs)
        return self.backbone(self.tokens(inputs), *([self._one_of(inputs)] if self.in_turn else []))

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            return inputs
        first, *others = self.modalities
        if others:
            names = ", ".join(f"{name}=..." for name in self.modalities)
            raise TypeError(f"the model has several modalities: give it dict({names}), with one of them or more")
        if not isinstance(inputs, (Tensor, list)):
            kinds = f"a tensor, a list of them, or dict({first}=...)"
            raise TypeError(f"the model takes a batch of {first}: {kinds}, got {_short(inputs)}")
        return {first: inputs}

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """That of evaluation; where nobody has set one, that of whoever calls."""
        return contextlib.nullcontext() if self.amp is None else autocast(next(self.parameters()), self.amp)

    def _one_of(self, inputs: dict[str, Any]) -> str:
        if len(inputs) != 1:
            raise ValueError(f"with a head per modality a batch is of one of them, got {', '.join(inputs) or 'none'}")
        return next(iter(inputs))

    def tokens(self, inputs: Tensor | list[Tensor] | dict[str, Any]) -> TokenSet:
        """All modalities of a batch as one token set, before the backbone."""
        inputs = self._by_name(inputs)
        for name in inputs:
            if name not in self.modalities and name not in self.told:
                known = ", ".join(self.modalities)
                raise UnknownNameError(
                    f"the model has no modality '{name}'{nearest(name, self.modalities)} It has: {known}"
                )
        sets = []
        for i, (name, adapter) in enumerate(self.modalities.items()):
            value = inputs.get(name)
            if value is None or name in self.masked:
                continue
            if not isinstance(value, Tensor) and all(one is None for one in value):
                continue
            told = {name: inputs[name] for name in cast(Adapter, adapter).told if name in inputs}
            found = _of_those_that_have_it(partial(self._made_by, name, adapter), value, told)
            if self.joined:
                kind = torch.full(found.features.shape[:2], i, device=found.features.device)
                found = TokenSet(found.features + self.kinds[i].to(found.features.dtype), found.where, kind)
            sets.append(found)
        if not sets:
            raise NothingLeftError(
                f"no sample of this batch has any of {', '.join(self.modalities)}: nothing to look at"
            )
        return sets[0] if len(sets) == 1 else join(*sets)

    def at_home(self, batch: dict[str, Any]) -> Any:
        """A collated batch whose inputs are on the device of the weights. Its samples stay: what a head wants of them
        it sends there itself, once for all (`targets`)."""
        device = next(self.parameters()).device
        inputs = tree_map_only(Tensor, lambda value: value.to(device, non_blocking=True), batch["inputs"])
        return batch | dict(inputs=inputs)

    @staticmethod
    def total(losses: dict[str, Tensor]) -> Tensor:
        """The sum of what a head calls a loss; what else it says is to be looked at."""
        return cast(Tensor, sum(value.mean() for name, value in losses.items() if "loss" in name))

    def train_step(self, batch: dict[str, Any], optim_wrapper: Any) -> dict[str, Tensor]:
        """A step of mmengine's own loops; ours are in engine/training."""
        with optim_wrapper.optim_context(self):
            loss = self.total(self(**self.at_home(batch), mode="loss"))
        optim_wrapper.update_params(loss)
        return dict(loss=loss)

    def val_step(self, batch: dict[str, Any]) -> list[Any]:
        """An answer for each sample of a collated batch."""
        return self(**self.at_home(batch), mode="predict")

    @torch.no_grad()
    def test_scores(self, batch: dict[str, Any]) -> Any:
        """What the head says of a collated batch, for programs that do more with it than predict()."""
        data = self.at_home(batch)
        return self(data["inputs"])

    def _made_by(self, name: str, adapter: nn.Module, value: Tensor | list[Tensor], **told: Any) -> TokenSet:
        """The tokens of an adapter, who may be a newcomer, if the blocks can work with them."""
        tokens, kind = adapter(value, **told), type(adapter).__name__
        if torch.compiler.is_compiling():
            return tokens
        if not isinstance(tokens, TokenSet):
            raise TypeError(
                f"{kind}.forward() gave {_short(tokens)} and not tokens: return TokenSet(features, Where(positions))"
            )
        width = tokens.features.shape[2]
        if width != self.width:
            raise ValueError(
                f"{kind} gave tokens of {width} channels to blocks of {self.width}: make them as wide as the "
                "'dim' that it is given"
            )
        self._check_dims(name, adapter, tokens.where.positions.shape[2])
        return tokens

    def _check_dims(self, name: str, adapter: nn.Module, dims: int | None) -> None:
        own = self.position_dims
        at, own = ("", own) if not isinstance(own, dict) else (f".{name}", own.get(name))
        if own is not None and dims is not None and dims != own:
            raise ValueError(
                f"{type(adapter).__name__} gave positions of {dims} dimensions to blocks of {own}: set "
                f"model.backbone.position_dims{at}={dims}, or place the tokens in {own} dimensions"
            )


def _adapter(cfg: dict[str, Any], dim: int) -> Adapter:
    kind = MODALITIES.get(cfg["type"]) if isinstance(cfg, dict) and isinstance(cfg.get("type"), str) else None
    if kind is not None and not issubclass(kind, Adapter):
        raise TypeError(f"{kind.__name__} is no adapter: extend ndformer.framework.adapter.Adapter")
    if kind is not None and "dim" not in arguments(kind)[0] and not arguments(kind)[1]:
        raise TypeError(
            f"{kind.__name__} takes no 'dim', the width of tokens, which every modality is given: begin its "
            "constructor with __init__(self, dim: int, ...)"
        )
    return MODALITIES.create(cfg, dim=dim)


def _short(value: Any) -> str:
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
    return f"a {type(value).__name__}{shape}"


def _of_those_that_have_it(
    adapter: Callable[..., TokenSet], value: Tensor | list[Tensor | None], told: dict[str, Tensor | list[Tensor | None]]
) -> TokenSet:
    """Tokens of a modality, padding in the rows of samples that lack it. What the adapter is `told` is of all samples,
    and is given of those that have it."""
    if isinstance(value, Tensor):
        return adapter(value, **told)
    given = [one for one in value if one is not None]
    alike = all(one.shape == given[0].shape for one in given)
    beside = {name: [one for one, own in zip(all_of, value) if own is not None] for name, all_of in told.items()}
    tokens = adapter(torch.stack(given) if alike else given, **beside)
    if len(given) == len(value):
        return tokens
    rows = sent([i for i, one in enumerate(value) if one is not None], tokens.features)

    def spread(t: Tensor) -> Tensor:
        """Those rows in a batch of nothing."""
        t = t.expand(len(given), *t.shape[1:])
        return t.new_zeros(len(value), *t.shape[1:]).index_copy(0, rows, t)

    where = tokens.where
    valid = torch.ones(tokens.features.shape[:2], dtype=torch.bool, device=rows.device)
    valid = valid if where.valid is None else where.valid
    placed, objects = (None if label is None else spread(label) for label in (where.placed, where.objects))
    at = Where(spread(where.positions), valid=spread(valid), placed=placed, objects=objects)
    return TokenSet(spread(tokens.features), at)
