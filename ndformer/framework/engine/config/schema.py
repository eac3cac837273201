"""The schema of a config: its keys, with types, defaults and descriptions."""

from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal

from ndformer.framework.registry.ranges import (
    Count,
    FewOrNone,
    Inside,
    NonNegative,
    Positive,
    Range,
    Seconds,
    Seed,
    SomeShare,
    Text,
)
from ndformer.framework.registry.signature import arguments, union

Component = dict[str, Any]  # dict(type='NAME', its arguments)


def key(description: str, default: Any = MISSING) -> Any:
    return field(default=default, metadata=dict(description=description))


@dataclass(kw_only=True)
class Loading:
    batch_size: Count = key("samples per batch")
    dataset: Component = key("a dataset, its split and transforms")
    num_workers: FewOrNone = key("processes that read samples; 0: the training process does", 0)
    batch_tokens: Count | None = key(
        "training batches of so many tokens per process instead of batch_size samples", None
    )
    lengths: list[Count] | None = key(
        "with batch_tokens: each batch has a random one of these lengths, to which KeepAspect shrinks images", None
    )
    loops: Count = key("passes over the training set per epoch", 1)
    skip_bad: bool = key("skip samples that cannot be read, and list them at the end", False)
    random_labels: bool = key("a control experiment: shuffle the labels, so that there is nothing to learn", False)
    timeout: Seconds = key("seconds to wait for a batch from the workers before the run ends", 600.0)
    any_split: bool = key(
        "allow a split other than the loader's name, or one that overlaps with another loader's", False
    )


@dataclass(kw_only=True)
class Groups:
    layer_decay: SomeShare | None = key("factor on the learning rate from each block to the one below it", None)
    decay_encoding: bool = key("layer_decay applies to the encoding too; --weights sets False for a new encoding", True)
    no_decay: bool = key("no weight decay for biases, norms, tokens and an encoding's `no_weight_decay`", False)
    lr_factors: dict[str, NonNegative] | None = key(
        "factors on the learning rate of parameters whose name contains the key", None
    )


@dataclass(kw_only=True)
class Sharding:
    type: Literal["ddp", "fsdp"] = key("'fsdp' for the other keys")
    replicate: Count = key("groups of processes, each with all shards (HSDP)", 1)
    shard: Annotated[int, Range(-1, 10**6)] = key("processes in a group; -1: all", -1)
    offload: bool = key("keep the shards in CPU memory", False)


@dataclass(kw_only=True)
class Training:
    max_epochs: Count = key("passes over the training set")
    accumulate: Count = key("batches per optimizer step, of equal weight whatever their sizes", 1)
    freeze_epochs: FewOrNone = key("first epochs in which only the head and the encoding learn", 0)
    clip_grad: Positive | None = key("the largest norm of the gradient", None)
    amp: Literal["bf16", "fp16"] | None = key("16-bit autocast", None)
    compile: bool = key("torch.compile the backbone", False)
    checkpoint_every: Count | Text | None = key(
        "N optimizer steps or 'M minutes' between checkpoints within an epoch", None
    )
    parallel: Literal["ddp", "fsdp"] | Sharding = key(
        "several processes: 'ddp', each has all weights; 'fsdp' (FSDP2), each has a shard of them", "ddp"
    )
    recompute: Literal["none", "blocks"] = key(
        "'blocks': compute blocks again in the backward pass, to save memory", "none"
    )
    sync_batchnorm: bool = key("batch statistics over all processes", True)
    detect_anomaly: bool = key(
        "torch's anomaly detection: slow; names the operation that computes the first NaN", False
    )
    hang_after: Positive | None = key(
        "minutes without progress after which a run prints the stacks of all processes and ends; None: never", 30.0
    )


@dataclass(kw_only=True)
class Average:
    decay: Inside = key("share of the average that is kept at every step")


@dataclass(kw_only=True)
class Patience:
    patience: Count = key("epochs without a better validation before training ends")


@dataclass(kw_only=True)
class Imports:
    imports: list[str] | str = key("modules, by their import names")
    allow_failed_imports: bool = key("continue without modules that fail to import", False)


@dataclass(kw_only=True)
class Keys:
    """The keys of a config."""

    model: Component = key("modalities -> backbone -> head, and how training batches are mixed")
    train_dataloader: Loading = key("the training data")
    val_dataloader: Loading = key("the validation data, which selects the best checkpoint")
    test_dataloader: Loading = key("the test data, on which the best checkpoint is tested once, at the end")
    dataset: Component | None = key("options for the datasets of all three loaders, such as type or fold", None)
    data_root: Text | None = key("folder of the data, for every dataset that does not set its own", None)
    weights: Text | None = key(
        "pretrained weights, FILE or SOURCE:FILE; a different head or encoding is initialized", None
    )
    optimizer: Component = key("any torch.optim class; lr is the peak of the schedule")
    param_groups: Groups | None = key("parameter groups with other learning rates or weight decay", None)
    schedule: Component = key("the learning rate over training, per optimizer step")
    train_cfg: Training = key("epochs, precision and other training options")
    ema: Average | None = key("evaluate an average of the weights", None)
    early_stopping: Patience | None = key("stop when validation no longer improves", None)
    metrics: list[Component] = key("metrics; the main value of the first selects the best checkpoint")
    seed: Seed = key("seed of all random numbers", 0)
    visualizer: Literal["tensorboard", "wandb"] | None = key("also write curves for 'tensorboard' or 'wandb'", None)
    work_dir: Text | None = key("folder of the run; None: work_dirs/CONFIG[_ENCODING]", None)
    custom_imports: Imports | None = key("your modules, which register classes that the config names", None)
    custom_hooks: list[Component] | None = key(
        "hooks of mmengine, called at all of its points in training; `priority` orders them", None
    )
    default_scope: str = key("mmengine's scope of registry names", "ndformer")
    versions: dict[str, dict[str, Any]] | None = key("changes to the config by name, applied with `preset`", None)
    preset: str | None = key("name of the version in `versions` to merge into the config", None)
    sample: dict[str, Any] | None = key(
        "changes that --sample merges into the config: small model, short schedule", None
    )
    sample_data: str | list[str] | None = key(
        "the stand-in that --sample generates if its folder is missing; one for each part of a mixture", None
    )


def completed(cfg: dict[str, Any], kind: type = Keys) -> dict[str, Any]:
    """Return the config with defaults, in the order of the schema; unknown keys come last."""
    complete = {}
    for f in fields(kind):
        if f.name in cfg or f.default is not MISSING:
            value = cfg.get(f.name, f.default)
            settings = settings_class(arguments(kind)[0][f.name].hint)
            complete[f.name] = completed(value, settings) if settings and isinstance(value, dict) else value
    return complete | {name: value for name, value in cfg.items() if name not in complete}


def describe_keys(kind: type = Keys, prefix: str = "") -> list[tuple[str, str, str]]:
    """Return (dotted key, default, description) of all keys."""
    rows = []
    for f in fields(kind):
        rows.append((prefix + f.name, "" if f.default is MISSING else repr(f.default), f.metadata["description"]))
        settings = settings_class(arguments(kind)[0][f.name].hint)
        rows += describe_keys(settings, f"{prefix}{f.name}.") if settings else []
    return rows


def settings_class(hint: Any) -> type | None:
    """Return the dataclass in `Average` or `Average | None`."""
    return next((kind for kind in union(hint) if isinstance(kind, type) and is_dataclass(kind)), None)
