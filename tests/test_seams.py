"""Seams are classes: nobody asks an adapter, head, metric, pack or dataset what it has, or answers for keys."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndformer.framework.adapter import Adapter
from ndformer.framework.answer import Answer
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.mixer import Mixer
from ndformer.framework.data.pack import Pack
from ndformer.framework.data.stand_ins import StandIn
from ndformer.framework.engine.config.checker import problems
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.heads.head import Head
from ndformer.framework.registry import (
    ANSWERS,
    DATASETS,
    HEADS,
    METRICS,
    MIXERS,
    MODALITIES,
    STAND_INS,
    TRANSFORMS,
    Registry,
)

ROOT = Path(__file__).parents[1]
FILES = [
    path
    for folder in ("ndformer/framework", "ndformer/modalities", "ndformer/encodings", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
FOREIGN = {  # what is asked may have it or not: things of other packages, of Python, and of a class's own
    "getattr(head, 'is_animated', False)",
    "getattr(self.source, 'classes', None)",
    "getattr(self.source, 'targets', None)",
    "getattr(module, kind, None)",
    "getattr(error, 'lineno', None)",
    "getattr(model, 'backbone', model)",
    "hasattr(sampler, 'set_epoch')",
    "hasattr(self, 'classes')",
    "getattr(hook, 'priority', 'NORMAL')",  # hooks of users
    "hasattr(hook, 'state_dict')",
    "hasattr(hook, 'load_state_dict')",
    "hasattr(hook, point)",
    "getattr(model, 'no_sync', contextlib.nullcontext)",
    "hasattr(torch.ops.ndformer, 'attention')",
    "getattr(record, 'path', None)",
    "hasattr(os, 'sched_getaffinity')",
    "getattr(package, '__path__', ())",
    "getattr(hint, '__name__', str(hint))",
    "getattr(args, 'checkpoint', None)",  # of programs that take one
    "getattr(kind, 'renamed_options', {})",  # classes of torch are registered too
    "getattr(self.backbone, 'in_channels', dim)",  # a pyramid's; other backbones take tokens of their own width
}


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_nobody_asks_whether_a_part_has_something() -> None:
    asked = {
        ast.unparse(node): f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if "attr(" in path.read_text(encoding="utf-8")
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
    }
    strangers = {text: where for text, where in asked.items() if text not in FOREIGN}
    assert not strangers, f"give the base class a default instead: {strangers}"
    assert len(asked) > 5  # the search finds some


@pytest.mark.slow
def test_nobody_tells_answers_apart_by_keys() -> None:
    keys = {"scores", "found", "predicted", "prediction"}
    strangers = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and node.left.value in keys
    ]
    assert not strangers, strangers


@pytest.mark.parametrize(
    "registry, base",
    [
        (ANSWERS, Answer),
        (DATASETS, Dataset),
        (HEADS, Head),
        (METRICS, Metric),
        (MIXERS, Mixer),
        (MODALITIES, Adapter),
        (STAND_INS, StandIn),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_all_of_a_kind_extend_its_base(registry: Registry, base: type) -> None:
    kinds = {
        name: kind
        for name, kind in registry.all().items()
        if kind.__module__.startswith(("ndformer.", base.__module__))
    }
    assert kinds
    assert [name for name, kind in kinds.items() if not issubclass(kind, base)] == []


def test_each_answer_is_read_by_a_metric_that_there_is() -> None:
    for name in ("Label", "Boxes", "Pixels", "Points", "Cells"):
        assert issubclass(METRICS.get(ANSWERS.get(name).metric), Metric)


def test_each_dataset_says_an_answer_that_there_is() -> None:
    for kind in list(DATASETS.all().values()):
        if kind.__module__.startswith("ndformer."):
            assert issubclass(ANSWERS.get(kind.answer), Answer)


def test_what_packs_is_a_pack() -> None:
    packs = [name for name, kind in TRANSFORMS.all().items() if isinstance(kind, type) and issubclass(kind, Pack)]
    assert {"PackImage", "PackMask", "PackBoxes", "PackPoints", "PackSpikes", "PackVideo", "PackGrid"} <= set(packs)
    assert all(isinstance(TRANSFORMS.get(name).input_name, str) for name in packs)


def test_a_mixer_among_the_transforms_is_refused_when_a_config_is_read() -> None:
    chain = [dict(type="ImageMix", mixup=0.8), dict(type="PackImage")]
    loader = dict(batch_size=2, dataset=dict(type="CIFAR10", data_root=".", transforms=chain))
    said = problems(dict(train_dataloader=loader, data_root=None))
    assert any("transforms.0.type: no transform is called 'ImageMix'" in sentence for sentence in said)
