"""Several processes train as one does: DDP, FSDP and HSDP, with uneven batches, BatchNorm, EMA, clipping and bf16."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.engine.training import fsdp, nonfinite
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, clip_grad_norm, find_blocks, parallelize
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import BACKBONES
from ndformer.framework.registry import ENCODINGS as REGISTRY
from ndformer.framework.system import processes
from tests.framework.engine.training.models import (
    SAMPLES,
    Data,
    Run,
    batch,
    boxes,
    build,
    classifier,
    clouds,
    detector,
    images,
    molecules,
    ptv3,
    regressor,
    transformer,
)
from tests.spawned import spawned


def train(make: Callable[[], TokenModel], data: Data, *args: Any, steps: int = 20, **options: Any) -> dict[str, Any]:
    """Train some steps; return the losses and what the averaged model predicts."""
    run = Run(make, data, *args, **options)
    for _ in range(steps):
        run.step()
    model = run.model.eval()
    with torch.no_grad(), run.average.applied(model):
        outputs = model(batch(data(99), run.name)["inputs"])
    outputs = getattr(outputs, "logits", outputs)
    outputs = torch.cat(list(outputs)) if isinstance(outputs, list) else outputs
    buffers = {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    sharded = sum(processes.is_sharded(p) for p in model.parameters())
    return dict(losses=run.losses, norms=run.norms, outputs=outputs, buffers=buffers, sharded=sharded)


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


slow = pytest.mark.slow
CASES = dict(
    image=(classifier, images), points=(ptv3, clouds), boxes=(detector, boxes), molecules=(regressor, molecules)
)
HSDP = dict(type="fsdp", replicate=2)
assert fsdp  # imported here, once for all processes that tests fork


EVERYDAY = [("image", 2, "fsdp", 4), ("points", 2, "ddp", 4), ("molecules", 2, "ddp", 4)]
SLOW = [  # each model with each kind of parallel training, and each of both on two and on four processes
    *(("image", 4, "ddp", 50), ("image", 2, "fsdp", 50), ("image", 4, HSDP, 50)),
    *(("points", 2, "ddp", 50), ("points", 4, "fsdp", 50), ("points", 2, HSDP, 50)),
    *(("boxes", 2, "ddp", 50), ("boxes", 4, "fsdp", 50), ("boxes", 4, HSDP, 50)),
    *(("molecules", 4, "ddp", 20), ("molecules", 2, "fsdp", 20), ("molecules", 4, HSDP, 20)),
]


@cache
def alone(case: str, steps: int) -> dict[str, Any]:
    return train(*CASES[case], steps=steps)


@pytest.mark.parametrize("case, count, parallel, steps", [*EVERYDAY, *(pytest.param(*row, marks=slow) for row in SLOW)])
def test_processes_train_as_one(case: str, count: int, parallel: Any, steps: int) -> None:
    found = spawned(count, partial(train, steps=steps), *CASES[case], parallel)
    assert all(f["sharded"] > 0 for f in found) == (parallel != "ddp")
    assert_alike(alone(case, steps), found)


OPTIONS: dict[str, dict[str, Any]] = dict(
    hsdp=dict(parallel=HSDP),
    recomputed=dict(parallel="fsdp", recompute="blocks"),
    recomputed_in_ddp=dict(parallel="ddp", recompute="blocks"),
    accumulated=dict(parallel="fsdp", accumulate=2),
    offloaded=dict(parallel=dict(type="fsdp", offload=True)),
)


def with_options(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Train with each of these options; "" is none, on one process or by DDP.

    The accumulated case has no BatchNorm, whose statistics are of parts of a batch.
    """
    accumulated = partial(classifier, hidden=())
    makes = {name: accumulated if name.startswith("accumulated") else classifier for name in names}
    return {name: train(makes[name], images, steps=3, **OPTIONS.get(name, {})) for name in makes}


def test_options_change_no_result() -> None:
    found = spawned(2, with_options, OPTIONS)  # one group of processes for all options
    alone = with_options(["", "accumulated alone"])
    for name in OPTIONS:
        assert_alike(alone["accumulated alone" if name == "accumulated" else ""], [each[name] for each in found])


def test_recomputing_changes_no_bit() -> None:
    for case in ("image", "points"):
        one, other = train(*CASES[case], steps=2), train(*CASES[case], steps=2, recompute="blocks")
        assert one["losses"] == other["losses"]
        assert torch.equal(one["outputs"], other["outputs"])


def encodings(names: Sequence[str], parallel: str = "ddp", **options: Any) -> list[list[float]]:
    return [train(partial(classifier, name, dim=24), images, parallel, steps=2, **options)["losses"] for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("amp", [None, torch.bfloat16])
def test_all_encodings(amp: torch.dtype | None) -> None:
    REGISTRY.get("PaPE")
    names = [name for name in sorted(REGISTRY.module_dict) if name != "ObjectSincos"]
    tolerance = 1e-5 if amp is None else 2e-2
    for one, several in zip(encodings(names, amp=amp), spawned(2, partial(encodings, amp=amp), names, "fsdp")[0]):
        assert several == pytest.approx(one, abs=tolerance)


def dtypes() -> dict[str, torch.dtype]:
    """Return the dtypes of weights during a bf16 step, and those of the optimizer."""
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


@pytest.mark.slow
def test_parameters_that_blocks_share() -> None:
    one = train(tied, images, steps=3, layer_decay=None)
    assert_alike(one, spawned(2, partial(train, steps=3, layer_decay=None), tied, images, "fsdp"))


PAIR = dict(image=dict(type="ImagePatches", patch=4), second=dict(type="ImagePatches", patch=6))


def joint() -> TokenModel:
    return build(PAIR, transformer(dict(type="PaPE")), dict(type="Classifier", classes=3, pool="mean"))


def losses_of(model: TokenModel, batches: Iterable[dict[str, Any]], parallel: str, clip: float = 1e9) -> list[float]:
    running = parallelize(model, Parallel.from_config(dict(parallel=parallel)))
    optimizer = build_optimizer(model, dict(type="AdamW", lr=1e-3, weight_decay=0.1))
    losses = []
    for some in batches:
        loss = model.total(running(**some, mode="loss"))
        loss.backward()
        clip_grad_norm(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(processes.mean(loss.detach()).item())
    return losses


def lacking(parallel: str = "ddp") -> list[float]:
    """Train on samples without a modality: in steps 0 and 1 all of one process, in step 2 all of both."""

    def batches() -> Iterator[dict[str, Any]]:
        for step in range(4):
            some, first = batch(images(step), "image"), processes.rank() * SAMPLES // processes.count()
            rows = dict(enumerate(some["inputs"]["image"], first))
            lacks = {i: i >= 6 if step < 2 else step == 2 or i % 3 == 0 for i in rows}
            some["inputs"]["second"] = [None if lacks[i] else row for i, row in rows.items()]
            yield some

    return losses_of(joint(), batches(), parallel)


@pytest.mark.slow
def test_a_modality_that_all_samples_of_a_process_lack() -> None:
    one = lacking()
    for parallel in ("ddp", "fsdp"):
        assert spawned(2, lacking, parallel)[0] == pytest.approx(one, abs=1e-5)


def in_turn(parallel: str = "ddp", frozen: bool = False) -> list[float]:
    """Train two tasks in turn; heads and encodings have no gradients in the steps of the other task."""
    task = dict(type="Classifier", classes=3, pool="mean")
    backbone = transformer(dict(type="PaPE"), position_dims=dict(image=2, second=2))
    model = build(PAIR, backbone, dict(image=task, second=task), loss_weights=dict(second=0.5))
    if frozen:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(".blocks.0." not in name and ".project." not in name)
    batches = (batch(images(step), "image" if step % 2 else "second") for step in range(4))
    return losses_of(model, batches, parallel, clip=0.1)


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
    """Return the messages for a bad input, loss and weight in process 1."""
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


def test_all_processes_name_the_bad_value_of_one() -> None:
    for bad_input, bad_loss, bad_weight in spawned(2, not_finite):
        assert bad_input == "the input image of sample 2 is not finite"
        assert bad_loss == "the outputs of all layers are finite, the loss is not"
        assert bad_weight.startswith("the weight backbone.blocks.1.mlp.0.bias is already not finite")


def test_blocks_of_each_backbone() -> None:
    def count(**options: Any) -> int:
        return len(find_blocks(BACKBONES.create(options)))

    assert count(**transformer(None)) == 2
    assert count(type="FactorizedTransformer", dim=24, depth=2, time_depth=3, heads=2, position_dims=3) == 5
    assert count(type="PTv3") == 22
    assert count(type="UniTR", dim=24, heads=2) == 4


def overflows(parallel: str = "ddp", worst: float = 1.0) -> tuple[list[float], float]:
    """Return losses in fp16 and the final scale; the loss of the last process is multiplied by `worst` in step 1."""
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
    one = overflows(worst=torch.inf)
    assert (overflows(worst=1.0)[1], one[1]) == (1024, 512)
    for found in spawned(2, overflows, "fsdp", torch.inf):
        assert found == (pytest.approx(one[0], abs=2e-3), 512)
