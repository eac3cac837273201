"""Several processes train as one does: DDP, FSDP and HSDP, with uneven batches, BatchNorm, EMA, clipping and bf16."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.engine.training import fsdp, nonfinite
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import (
    Parallel,
    clip_grad_norm,
    find_blocks,
    parallelize,
)
from ndformer.framework.errors import DataError
from ndformer.framework.losses.labels import label_loss
from ndformer.framework.losses.objects3d import peak_focal
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import BACKBONES, MODELS
from ndformer.framework.registry import ENCODINGS as REGISTRY
from ndformer.framework.system import processes
from tests.spawned import spawned

SAMPLES = 12  # in a batch of all processes


def transformer(encoding: Any, **options: Any) -> dict[str, Any]:
    sizes = dict(dim=33, depth=2, heads=3, position_dims=2) | options
    return dict(type="Transformer", encoding=encoding, **sizes)


def build(modalities: dict[str, Any], backbone: dict[str, Any], head: dict[str, Any]) -> TokenModel:
    torch.manual_seed(0)
    model = MODELS.create(dict(type="TokenModel", modalities=modalities, backbone=backbone, head=head))
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
    model.amp = amp
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
        torch.testing.assert_close(
            torch.tensor(found["losses"]), torch.tensor(one["losses"]), atol=tolerance, rtol=2e-6
        )
        torch.testing.assert_close(torch.tensor(found["norms"]), torch.tensor(one["norms"]), atol=5e-4, rtol=1e-3)
        torch.testing.assert_close(found["buffers"], one["buffers"], atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(found["buffers"], several[0]["buffers"], atol=0, rtol=0)
    outputs = torch.cat([found["outputs"] for found in several])
    torch.testing.assert_close(outputs, one["outputs"], atol=1e-3, rtol=1e-3)


CASES = dict(image=(classifier, images), points=(ptv3, clouds), boxes=(detector, boxes))
HSDP = dict(type="fsdp", replicate=2)
assert fsdp  # imported here, once for all processes that tests fork


@pytest.mark.parametrize("case", ["image", "points", pytest.param("boxes", marks=pytest.mark.slow)])
def test_two_processes_train_as_one(case: str) -> None:
    one = train(*CASES[case], steps=4)
    for parallel in ("ddp", "fsdp"):
        found = spawned(2, partial(train, steps=4), *CASES[case], parallel)
        assert all(f["sharded"] > 0 for f in found) == (parallel == "fsdp")
        assert_alike(one, found)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", HSDP])
def test_processes_train_as_one_for_fifty_steps(case: str, count: int, parallel: Any) -> None:
    one = train(*CASES[case], steps=50)
    assert_alike(one, spawned(count, partial(train, steps=50), *CASES[case], parallel))


OPTIONS: dict[str, dict[str, Any]] = dict(
    hsdp=dict(parallel=HSDP),
    recomputed=dict(parallel="fsdp", recompute="blocks"),
    recomputed_in_ddp=dict(parallel="ddp", recompute="blocks"),
    accumulated=dict(parallel="fsdp", accumulate=2),
    offloaded=dict(parallel=dict(type="fsdp", offload=True)),
)


@pytest.mark.parametrize("option", OPTIONS)
def test_options_change_no_result(option: str) -> None:
    """Without BatchNorm over parts of a batch, which accumulation would change."""
    options = OPTIONS[option]
    make = partial(classifier, hidden=()) if option == "accumulated" else classifier
    assert_alike(train(make, images, steps=3), spawned(2, partial(train, steps=3, **options), make, images))


def test_recomputing_changes_no_bit() -> None:
    for case in ("image", "points"):
        one, other = train(*CASES[case], steps=2), train(*CASES[case], steps=2, recompute="blocks")
        assert one["losses"] == other["losses"]
        assert torch.equal(one["outputs"], other["outputs"])


# parameters: one of a stage used in layers, scalars, before the projections, tables, of a stage's embedding
ENCODINGS = ("LaPE", "FIRE", "LearnableMLP", "PEMixer", "Relative", "LearnableFourier")


def encodings(names: Sequence[str], parallel: str = "ddp", **options: Any) -> list[list[float]]:
    return [train(partial(classifier, name, dim=24), images, parallel, 3, **options)["losses"] for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("amp", [None, torch.bfloat16])
def test_encodings_with_parameters_of_any_owner(amp: torch.dtype | None) -> None:
    _encodings_train_alike(ENCODINGS, amp)


@pytest.mark.slow
@pytest.mark.parametrize("amp", [None, torch.bfloat16])
def test_all_encodings(amp: torch.dtype | None) -> None:
    REGISTRY.get("PaPE")
    _encodings_train_alike([name for name in sorted(REGISTRY.module_dict) if name != "ObjectSincos"], amp)


def _encodings_train_alike(names: Sequence[str], amp: torch.dtype | None) -> None:
    tolerance = 1e-5 if amp is None else 2e-2
    for one, several in zip(encodings(names, amp=amp), spawned(2, partial(encodings, amp=amp), names, "fsdp")[0]):
        assert several == pytest.approx(one, abs=tolerance)


def dtypes() -> dict[str, torch.dtype]:
    """The dtypes of weights during a step in bf16, and those that the optimizer has."""
    model = classifier()
    parallelize(model, Parallel.from_config(dict(parallel="fsdp")), torch.bfloat16)
    found = {}

    def note(name: str, module: Any, *_: Any) -> None:
        found.update({f"{name}.{n}": p.dtype for n, p in module.named_parameters(recurse=False)})

    for name, module in model.named_modules():
        module.register_forward_pre_hook(partial(note, name))
    with torch.autocast("cpu", torch.bfloat16):
        model(**batch(images(0), "image"), mode="loss")["loss"].backward()
    return found | {f"own {n}": p.dtype for n, p in model.named_parameters()}


def test_positions_heads_and_batch_norm_keep_float32_weights_in_bf16() -> None:
    found = spawned(2, dtypes)[0]
    low = {name for name, dtype in found.items() if dtype == torch.bfloat16}
    assert low == {n for n in found if n.startswith("backbone.blocks") and ".encoding." not in n}
    assert len(low) > 10
    assert any(".encoding." in name for name in found)
    assert all(dtype == torch.float32 for name, dtype in found.items() if name not in low)


def tied() -> TokenModel:
    """The blocks share their MLP."""
    model = classifier()
    blocks = find_blocks(model.backbone)
    blocks[1].mlp = blocks[0].mlp
    return model


def test_parameters_that_blocks_share() -> None:
    one = train(tied, images, steps=3, layer_decay=None)
    assert_alike(one, spawned(2, partial(train, steps=3, layer_decay=None), tied, images, "fsdp"))


def joint() -> TokenModel:
    modalities = dict(image=dict(type="ImagePatches", patch=4), second=dict(type="ImagePatches", patch=6))
    return build(modalities, transformer(dict(type="PaPE")), dict(type="Classifier", classes=3, pool="mean"))


def lacking(parallel: str = "ddp", steps: int = 4) -> list[float]:
    """Samples of which some lack a modality: in steps 0 and 1 all of one process, in step 2 all of both."""
    model = joint()
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel)))
    optimizer = build_optimizer(model, dict(type="AdamW", lr=1e-3, weight_decay=0.1))
    losses = []
    for step in range(steps):
        samples = images(step)
        lacks = [i >= 6 if step < 2 else step == 2 or i % 3 == 0 for i in range(SAMPLES)]
        size = SAMPLES // processes.count()
        own = slice(processes.rank() * size, (processes.rank() + 1) * size)
        image = [x for x, _ in samples][own]
        second = [None if lack else x for lack, (x, _) in zip(lacks, samples)][own]
        inputs = dict(image=torch.stack(image), second=second)
        loss = model.total(running(inputs, [sample for _, sample in samples][own], mode="loss"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(processes.mean(loss.detach()).item())
    return losses


def test_a_modality_that_all_samples_of_a_process_lack() -> None:
    one = lacking()
    for parallel in ("ddp", "fsdp"):
        assert spawned(2, lacking, parallel)[0] == pytest.approx(one, abs=1e-5)


def in_turn(parallel: str = "ddp", frozen: bool = False) -> list[float]:
    """Batches of two tasks in turn, whose heads and encodings have no gradients in the other's steps."""
    task = dict(type="Classifier", classes=3, pool="mean")
    torch.manual_seed(0)
    model = MODELS.create(
        dict(
            type="TokenModel",
            modalities=dict(image=dict(type="ImagePatches", patch=4), second=dict(type="ImagePatches", patch=6)),
            backbone=transformer(dict(type="PaPE"), position_dims=dict(image=2, second=2)),
            head=dict(image=task, second=task),
            loss_weights=dict(second=0.5),
        )
    )
    if frozen:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(".blocks.0." not in name and ".project." not in name)
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel)))
    optimizer = build_optimizer(model, dict(type="AdamW", lr=1e-3, weight_decay=0.1))
    losses = []
    for step in range(4):
        loss = model.total(running(**batch(images(step), "image" if step % 2 else "second"), mode="loss"))
        loss.backward()
        clip_grad_norm(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(processes.mean(loss.detach()).item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_tasks_in_turn_and_frozen_weights(frozen: bool) -> None:
    one = in_turn(frozen=frozen)
    for parallel in ("ddp", "fsdp"):
        assert spawned(2, in_turn, parallel, frozen)[0] == pytest.approx(one, abs=1e-5)


def methods() -> tuple[float, float, int]:
    model = classifier().eval()
    inputs = torch.stack([x for x, _ in images(0)])
    before = model.features(inputs).features, model.tokens(inputs).features
    parallelize(model, Parallel.from_config(dict(parallel="fsdp")))
    with torch.no_grad():
        after = model.features(inputs).features, model.tokens(inputs).features
    some, none = dict(inputs=dict(image=inputs), data_samples=[dict(label=0)] * 12), dict(inputs={}, data_samples=[])
    batches = [some, none] if processes.rank() == 0 else [none, none]
    evaluation = measure([dict(type="Accuracy")], model, batches)
    features, tokens = (float((x - y).abs().max()) for x, y in zip(before, after))
    return features, tokens, len(evaluation.answers)


def test_other_methods_of_a_sharded_model_and_a_process_without_samples() -> None:
    for (features, tokens, answers), expected in zip(spawned(2, methods), (12, 0)):
        assert features < 1e-5
        assert tokens == 0
        assert answers == expected


def scaled_loss(model: TokenModel, some: dict[str, Any], scale: float) -> Tensor:
    return model(**some, mode="loss")["loss"] * scale


def not_finite() -> list[str]:
    """The sentences on a bad input and then on a bad weight, of which only process 1 knows."""
    sentences = []
    model = classifier()
    parallelize(model, Parallel.from_config(dict(parallel="fsdp")))
    for bad in ("input", "loss", "weight"):
        some = batch(images(0), "image")
        if bad == "input" and processes.rank() == 1:
            some["inputs"]["image"][2, 0, 0, 0] = torch.nan
        if bad == "weight" and processes.rank() == 1:
            processes.local(dict(model.named_parameters())["backbone.blocks.1.mlp.0.bias"].detach())[-1] = torch.nan
        scale = torch.nan if bad == "loss" and processes.rank() == 1 else 1.0
        sentences.append(nonfinite.origin(model, some, partial(scaled_loss, model, some, scale)))
        model.zero_grad()
    return sentences


def test_all_processes_name_what_one_has() -> None:
    for bad_input, bad_loss, bad_weight in spawned(2, not_finite):
        assert bad_input == "the input image of sample 2 is not finite"
        assert bad_loss == "the outputs of all layers are finite, the loss is not"
        assert bad_weight.startswith("the weight backbone.blocks.1.mlp.0.bias is already not finite")


@pytest.mark.parametrize(
    "settings, problem",
    [
        (dict(parallel="fdsp"), "train_cfg.parallel.type: expected 'ddp' or 'fsdp', got 'fdsp'"),
        (dict(parallel=dict(type="fsdp", shards=2)), "expected the keys type, replicate, shard, offload, got 'shards'"),
        (dict(recompute="all"), "train_cfg.recompute: expected 'none' or 'blocks', got 'all'"),
        (dict(parallel=dict(type="ddp", replicate=2)), "replicate, shard and offload need type='fsdp', got type='ddp'"),
    ],
)
def test_settings_that_are_wrong(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Parallel.from_config(settings)


def test_the_sizes_of_groups() -> None:
    assert Parallel("fsdp").sizes(8) == (1, 8)
    assert Parallel("fsdp", replicate=2).sizes(8) == (2, 4)
    assert Parallel("fsdp", replicate=2, shard=4).sizes(8) == (2, 4)
    for wrong in (Parallel("fsdp", replicate=3), Parallel("fsdp", shard=3), Parallel("fsdp", replicate=0)):
        with pytest.raises(DataError, match="expected replicate x shard = 8 processes"):
            wrong.sizes(8)


def test_the_blocks_of_each_backbone() -> None:
    def count(**options: Any) -> int:
        return len(find_blocks(BACKBONES.create(options)))

    assert count(**transformer(None)) == 2
    assert count(type="FactorisedTransformer", dim=24, depth=2, time_depth=3, heads=2, position_dims=3) == 5
    assert count(type="PTv3") == 22
    assert count(type="UniTR", dim=24, heads=2) == 4


def overflows(parallel: str = "ddp", worst: float = 1.0) -> tuple[list[float], float]:
    """Losses in fp16 and the final scale; the loss of the last process is multiplied by `worst` in step 1."""
    model = classifier()
    model.amp = torch.float16
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel)), model.amp)
    optimizer = build_optimizer(model, dict(type="AdamW", lr=1e-3, eps=1e-4))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)  # pyright: ignore[reportPrivateImportUsage]
    losses = []
    for step in range(3):
        with torch.autocast("cpu", torch.float16):
            loss = model.total(running(**batch(images(step), "image"), mode="loss"))
        factor = worst if step == 1 and processes.rank() == processes.count() - 1 else 1.0
        scaler.scale(factor * loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(processes.mean(loss.detach()).item())
    return losses, scaler.get_scale()


def test_an_overflow_of_one_process_skips_the_step_of_all() -> None:
    for worst, scale in ((1.0, 1024.0), (torch.inf, 512.0)):
        one = overflows(worst=worst)
        assert one[1] == scale
        for found in spawned(2, overflows, "fsdp", worst):
            assert found == (pytest.approx(one[0], abs=2e-3), scale)


def uneven(function: Callable[[slice], Tensor]) -> float:
    size = SAMPLES // processes.count()
    return processes.mean(function(slice(processes.rank() * size, (processes.rank() + 1) * size))).item()


def heat(rows: slice) -> Tensor:
    torch.manual_seed(0)
    logits, target = torch.randn(SAMPLES, 2, 5, 5), torch.rand(SAMPLES, 2, 5, 5)
    target[:2, :, :2] = 1  # all peaks are in the first samples
    return peak_focal(logits[rows], target[rows])


def labeled(rows: slice) -> Tensor:
    torch.manual_seed(0)
    logits, labels = torch.randn(SAMPLES, 4, 7), torch.randint(0, 4, (SAMPLES, 7))
    labels[3:] = -1
    return label_loss(logits[rows], labels[rows])["loss"]


@pytest.mark.parametrize("function", [heat, labeled])
def test_the_mean_of_losses_is_the_loss_of_all_samples(function: Callable[[slice], Tensor]) -> None:
    assert spawned(3, uneven, function) == [pytest.approx(uneven(function), rel=1e-5)] * 3
