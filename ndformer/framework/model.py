"""TokenModel: modality adapters, backbone and head, one class for every task."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from ndformer.framework.adapter import Adapter
from ndformer.framework.answer import Answer
from ndformer.framework.backbones.factorized import class_token_place
from ndformer.framework.data.mixer import Mixer
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.composed import with_periods
from ndformer.framework.errors import ConfigError, NothingLeftError, UnknownNameError, nearest
from ndformer.framework.heads.head import Head, build_head
from ndformer.framework.packing import packed, unpacked
from ndformer.framework.registry import BACKBONES, MIXERS, MODALITIES, MODELS
from ndformer.framework.registry.ranges import Filled, Names, NonNegative
from ndformer.framework.registry.signature import arguments
from ndformer.framework.system.autocast import autocast
from ndformer.framework.system.devices import tensor_like
from ndformer.framework.tokens import TokenSet, Where, join


@MODELS.register_module()
class TokenModel(nn.Module):
    """A model that turns inputs into tokens by modality, runs the backbone on them and predicts with a head.

    With one head, the modalities of a sample are joined into one token set, each with a learned modality embedding;
    samples may lack modalities. With a head per modality, dict(image=dict(type=...), points=...), each batch contains
    one modality and all share the blocks; `loss_weights` scales the loss of each modality (default 1). `mix` augments
    training batches (MixUp, CutMix) before they become tokens.

    model(x) returns the output of the head's forward(), for example logits (B, classes) for images (B, C, H, W). x is
    the input of the adapter, a tensor or a list of tensors; with several modalities dict(image=..., points=...).
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
        backbone = with_declared_periods(backbone, modalities)
        self.backbone = BACKBONES.create(backbone)
        dim = self.backbone.dim  # width of the features that heads receive
        self.width = getattr(self.backbone, "in_channels", dim)  # of the tokens that adapters make: less of a pyramid
        self.modalities = nn.ModuleDict({name: _adapter(cfg, self.width) for name, cfg in modalities.items()})
        numbers = enumerate(cast(Adapter, adapter).number for adapter in self.modalities.values())
        self.numbers = dict(zip(modalities, (i if number is None else number for i, number in numbers)))
        self.position_dims, encoding = backbone.get("position_dims"), backbone.get("encoding")
        for name, module in self.modalities.items():
            adapter = cast(Adapter, module)
            self._check_dims(name, adapter, adapter.position_dims)
            if adapter.prefix_names:
                adapter.class_at = class_token_place(self.backbone, encoding, adapter.class_at)
        self.in_turn = "type" not in head and set(head) == set(modalities)
        self.by_space = self.in_turn and "space" in arguments(self.backbone.forward)[0]
        self._check_grids()
        if self.in_turn:
            self.head = nn.ModuleDict({name: build_head(cfg, dim) for name, cfg in head.items()})
        else:
            self.head = build_head(head, dim)
        self._check_class_tokens()
        if len(modalities) > 1 and not self.in_turn:
            self.kinds = nn.Parameter(torch.empty(len(modalities), self.width))
            nn.init.trunc_normal_(self.kinds, std=0.02)
        self.loss_weights = {} if loss_weights is None else dict(loss_weights)
        for name in self.loss_weights:
            if not self.in_turn or name not in modalities:
                tasks = ", ".join(modalities) if self.in_turn else "none, because all modalities share one head"
                raise UnknownNameError(
                    f"loss_weights must name tasks, got '{name}'{nearest(name, modalities)} Tasks: {tasks}"
                )
        self.mix: Mixer | None = None if mix is None else MIXERS.create(mix)
        self.amp: torch.dtype | None = None  # autocast dtype of evaluation; set by the engine
        self.masked: set[str] = set()  # modalities to ignore, as if every sample lacked them

    @property
    def extra_inputs(self) -> set[str]:
        """The names of extra keyword inputs that adapters accept, for example calibrations."""
        return {name for adapter in self.modalities.values() for name in cast(Adapter, adapter).extra_inputs}

    @property
    def joint_modalities(self) -> list[str]:
        """The modalities that are joined into one token set; empty if there is one or a head for each."""
        return [] if self.in_turn or len(self.modalities) == 1 else list(self.modalities)

    def forward(
        self,
        inputs: Tensor | list[Tensor] | dict[str, Any],
        data_samples: list[dict[str, Any]] | None = None,
        mode: Literal["loss", "predict", "tensor"] = "tensor",
    ) -> Any:
        """Return, by `mode`, the losses dict(loss=...), one Answer per sample, or the output tensors of the head."""
        inputs = self._by_name(inputs)
        if not inputs:
            raise ValueError(
                "a batch must have inputs, got none. The last transform of a dataset, or its read(), returns "
                f"dict(inputs=dict({next(iter(self.modalities))}=tensor), data_sample=dict(label=number))"
            )
        space = [self._batch_modality(inputs)] if self.in_turn else []
        head = cast(Head, self.head[space[0]] if isinstance(self.head, nn.ModuleDict) else self.head)
        if mode == "loss":
            # not that of the weights, whose shards may be in CPU memory
            device = next((t.device for t in tree_leaves(inputs) if isinstance(t, Tensor)), torch.device("cpu"))
            targets = head.targets(data_samples or [], device)
            if self.mix is not None:
                inputs, targets = self.mix(inputs, targets)
            losses = head.loss(self.features(inputs), targets)
            weight = self.loss_weights.get(space[0], 1.0) if space else 1.0
            return losses if weight == 1.0 else {name: weight * loss for name, loss in losses.items()}
        with self.precision():
            tokens = self.features(inputs)
            if mode == "tensor":
                return head(tokens)
            answers = head.predict(tokens, data_samples or [])
            wrong = next((answer for answer in answers if not isinstance(answer, Answer)), None)
            if wrong is not None:
                raise TypeError(
                    f"{type(head).__name__}.predict() must return Answers, got {_short(wrong)}. Return "
                    "Label(sample=sample, scores=...) for each sample, or your own subclass of Answer"
                )
            return [replace(answer, task=space[0]) for answer in answers] if space else answers

    def features(self, inputs: Tensor | list[Tensor] | dict[str, Any]) -> TokenSet:
        """Return the tokens after the backbone, the input of the head: one row per sample."""
        inputs = self._by_name(inputs)
        tokens = self.backbone(self.tokens(inputs), *([self._batch_modality(inputs)] if self.by_space else []))
        given = next(iter(inputs.values()))  # a list may have None at its end, for which the backbone has no row
        return unpacked(tokens, len(given)) if isinstance(given, list) or tokens.where.segment is not None else tokens

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            return inputs
        first, *further = self.modalities
        if further:
            names = ", ".join(f"{name}=..." for name in self.modalities)
            raise TypeError(
                f"inputs of a model with several modalities must be a dict, got {_short(inputs)}. Pass dict({names})"
            )
        if not isinstance(inputs, (Tensor, list)):
            kinds = f"a tensor, a list of tensors or dict({first}=...)"
            raise TypeError(f"inputs of the model must be a batch of {first}, {kinds}, got {_short(inputs)}")
        return {first: inputs}

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.amp is None else autocast(next(self.parameters()), self.amp)

    def _batch_modality(self, inputs: dict[str, Any]) -> str:
        if len(inputs) != 1:
            got = ", ".join(inputs) or "none"
            raise ValueError(f"a batch must have one modality, as each has its own head, got {got}")
        return next(iter(inputs))

    def tokens(self, inputs: Tensor | list[Tensor] | dict[str, Any]) -> TokenSet:
        """Return all modalities of a batch as one token set, the input of the backbone."""
        inputs = self._by_name(inputs)
        for name in inputs:
            if name not in self.modalities and name not in self.extra_inputs:
                choices = ", ".join(self.modalities)
                raise UnknownNameError(
                    f"the model has no modality '{name}'{nearest(name, self.modalities)} It has: {choices}"
                )
        sets = []
        for i, (name, adapter) in enumerate(self.modalities.items()):
            value = inputs.get(name)
            if value is None or name in self.masked or (isinstance(value, list) and all(x is None for x in value)):
                continue
            extra_inputs = {name: inputs[name] for name in cast(Adapter, adapter).extra_inputs if name in inputs}
            call = partial(self._call_adapter, name, adapter)
            tokens = _adapt_present(call, value, extra_inputs, packs=not self.joint_modalities)
            if self.joint_modalities:
                kind = torch.full(tokens.features.shape[:2], self.numbers[name], device=tokens.features.device)
                tokens = TokenSet(tokens.features + self.kinds[i].to(tokens.features.dtype), tokens.where, kind)
            sets.append(tokens)
        if not sets:
            raise NothingLeftError(
                f"a batch must have at least one of {', '.join(self.modalities)}, got samples without any"
            )
        if len(sets) == 1:
            return sets[0]
        return join(*(unpacked(tokens, len(next(iter(inputs.values())))) for tokens in sets))

    def to_device(self, batch: dict[str, Any]) -> Any:
        """Return a collated batch with its inputs moved to the device of the weights.

        `data_samples` stay where they are: Head.targets() moves what a head needs.
        """
        device = next(self.parameters()).device
        inputs = tree_map_only(Tensor, lambda value: value.to(device, non_blocking=True), batch["inputs"])
        return batch | dict(inputs=inputs)

    @staticmethod
    def total(losses: dict[str, Tensor]) -> Tensor:
        """Return the sum of all entries whose name contains `loss`; others are not used."""
        return cast(Tensor, sum(value.mean() for name, value in losses.items() if "loss" in name))

    def train_step(self, batch: dict[str, Any], optim_wrapper: Any) -> dict[str, Tensor]:
        """Run a training step for mmengine's loops; ndformer's loops are in engine/training."""
        with optim_wrapper.optim_context(self):
            loss = self.total(self(**self.to_device(batch), mode="loss"))
        optim_wrapper.update_params(loss)
        return dict(loss=loss)

    def val_step(self, batch: dict[str, Any]) -> list[Any]:
        """Return one Answer per sample of a collated batch."""
        return self(**self.to_device(batch), mode="predict")

    @torch.no_grad()
    def test_scores(self, batch: dict[str, Any]) -> Any:
        """Return the output tensors of the head, for programs that need more than predict()."""
        return self(self.to_device(batch)["inputs"])

    def _call_adapter(
        self, name: str, adapter: nn.Module, value: Tensor | list[Tensor], **extra_inputs: Any
    ) -> TokenSet:
        """Return the tokens of an adapter after checking that the backbone accepts them."""
        tokens, kind = adapter(value, **extra_inputs), type(adapter).__name__
        if torch.compiler.is_compiling():
            return tokens
        if not isinstance(tokens, TokenSet):
            raise TypeError(
                f"{kind}.forward() must return tokens, got {_short(tokens)}. Write TokenSet(features, Where(positions))"
            )
        width = tokens.features.shape[2]
        if width != self.width:
            raise ValueError(
                f"{kind} must return tokens of {self.width} channels, got {width}. Use the width of its argument 'dim'"
            )
        self._check_dims(name, adapter, tokens.where.positions.shape[2])
        return tokens

    def _check_grids(self) -> None:
        """Raise if the encoding needs tokens on a grid and the modalities do not give one."""
        on_grids = [m for m in self.backbone.modules() if isinstance(m, PositionEncoding) and m.needs_grid]
        if not on_grids:
            return
        encoding = on_grids[-1]  # the innermost of nested ones
        name, advice = type(encoding).__name__, f"For free positions use {encoding.instead}"
        if len(self.modalities) > 1 and not self.in_turn:
            joined = ", ".join(self.modalities)
            raise ValueError(f"{name} requires one grid for each sample, got the joined tokens of {joined}. {advice}")
        for key, adapter in self.modalities.items():
            option = cast(Adapter, adapter).gridless_option
            if option is not None:
                problem = f"{option} leaves no grid, and {name} requires one. Remove {option}. {advice}"
                raise ValueError(f"model.modalities.{key}: {problem}")

    def _check_class_tokens(self) -> None:
        """Raise if a head reads a class token that an adapter does not make: it would read another token."""
        for name, adapter in self.modalities.items():
            head = self.head[name] if isinstance(self.head, nn.ModuleDict) else self.head
            has_one = cast(Adapter, adapter).prefix_names[:1] == ("class token",)
            if not has_one and cast(Head, head).reads_class_token:
                raise ConfigError(
                    f"model.modalities.{name}: expected a class token, which {type(head).__name__} reads, got none. "
                    "Set class_token=True of the modality, or pool='mean' of the head (readout='mean' of a Regressor)"
                )

    def _check_dims(self, name: str, adapter: nn.Module, dims: int | None) -> None:
        expected = self.position_dims
        key, expected = ("", expected) if not isinstance(expected, dict) else (f".{name}", expected.get(name))
        if expected is not None and dims is not None and dims != expected:
            raise ValueError(
                f"positions must have {expected} dimensions, got {dims} from {type(adapter).__name__}. Set "
                f"model.backbone.position_dims{key}={dims}, or use an adapter with {expected} dimensions"
            )


def _adapter(cfg: dict[str, Any], dim: int) -> Adapter:
    kind = MODALITIES.get(cfg["type"]) if isinstance(cfg, dict) and isinstance(cfg.get("type"), str) else None
    if kind is not None and not issubclass(kind, Adapter):
        raise TypeError(
            f"a modality must be an Adapter, got {kind.__name__}. Extend ndformer.framework.adapter.Adapter"
        )
    if kind is not None and "dim" not in arguments(kind)[0] and not arguments(kind)[1]:
        raise TypeError(
            f"{kind.__name__} must accept 'dim', the width of tokens, got a constructor without it. Write "
            "__init__(self, dim: int, ...)"
        )
    return MODALITIES.create(cfg, dim=dim)


def with_declared_periods(backbone: dict[str, Any], modalities: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the backbone with the circular axes that the adapters declare."""
    names = [cfg["type"] for cfg in modalities.values() if isinstance(cfg, dict) and isinstance(cfg.get("type"), str)]
    declared = {tuple(kind.periods) for kind in map(MODALITIES.get, names) if issubclass(kind, Adapter)}
    if not any(declared):
        return backbone
    if len(declared) > 1 or isinstance(backbone.get("position_dims"), dict):
        raise ValueError(
            f"modalities with circular axes must share one position space, got periods {sorted(map(str, declared))}. "
            "Declare the same periods in all adapters"
        )
    return backbone | dict(encoding=with_periods(backbone.get("encoding"), *declared))


def _short(value: Any) -> str:
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
    return f"a {type(value).__name__}{shape}"


def _adapt_present(
    adapter: Callable[..., TokenSet],
    value: Tensor | list[Tensor | None],
    extra_inputs: dict[str, Tensor | list[Tensor | None]],
    packs: bool,
) -> TokenSet:
    """Return the tokens of one modality, with padding in the rows of samples that lack it.

    With `packs`, tokens on grids become a packed row without these samples, since padded rows have no grid.
    `extra_inputs` have an entry for every sample; the adapter receives those of samples that have the modality.
    """
    if isinstance(value, Tensor):
        return adapter(value, **extra_inputs)
    present = [item for item in value if item is not None]
    alike = all(item.shape == present[0].shape for item in present)
    extra = {name: [x for x, item in zip(inputs, value) if item is not None] for name, inputs in extra_inputs.items()}
    tokens = adapter(torch.stack(present) if alike else present, **extra)
    if len(present) == len(value):
        return tokens
    rows = tensor_like([i for i, item in enumerate(value) if item is not None], tokens.features)
    if packs and tokens.where.grid is not None:
        return packed(tokens, [tokens.where.grid] * len(present), rows)
    segment = tokens.where.segment
    if packs and tokens.where.grids is not None and segment is not None:  # which has no padding
        return replace(tokens, where=replace(tokens.where, segment=rows[segment]))
    tokens = unpacked(tokens, len(present))

    def spread(t: Tensor) -> Tensor:
        """Insert zero rows for the samples that lack the modality."""
        t = t.expand(len(present), *t.shape[1:])
        return t.new_zeros(len(value), *t.shape[1:]).index_copy(0, rows, t)

    where = tokens.where
    valid = torch.ones(tokens.features.shape[:2], dtype=torch.bool, device=rows.device)
    valid = valid if where.valid is None else where.valid
    fields = dict(placed=where.placed, objects=where.objects, cameras=where.cameras)
    labels: dict[str, Any] = {name: spread(t) for name, t in fields.items() if t is not None}
    where = Where(spread(where.positions), valid=spread(valid), **labels)
    return TokenSet(spread(tokens.features), where)
