"""Models as graphs that take batches of any length and images of any size and compute the same without our code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from ndformer.framework import graph
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.heads.regressor import Regressor
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS
from tools import export

ROOT = Path(__file__).parents[2]
ENCODINGS.get("NoPE")  # the first look-up finds all
OURS = sorted(name for name, kind in ENCODINGS.module_dict.items() if kind.__module__.startswith("ndformer."))


def model(encoding: Any, class_token: bool = True, depth: int = 1, **head: Any) -> TokenModel:
    torch.manual_seed(0)
    blocks = dict(type="Transformer", dim=16, depth=depth, heads=2, position_dims=2, encoding=encoding)
    head = head or dict(type="Classifier", classes=5, pool="class" if class_token else "mean")
    made = TokenModel(dict(image=dict(type="ImagePatches", patch=4, class_token=class_token)), blocks, head)
    for weight in made.head.parameters():
        nn.init.normal_(weight, std=0.3)
    return made.eval()


def images(count: int, height: int = 16, width: int = 12) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(count))


OTHERS = [images(1), images(3, 24, 16), images(2, 8, 72)]  # batches that no graph was made with


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_a_graph_of_each_encoding_takes_batches_of_any_length_and_size(name: str) -> None:
    made = model(dict(type=name), class_token=len(name) % 2 == 0)
    found = graph.graph(made, images(2)).module()
    for batch in OTHERS:
        torch.testing.assert_close(found(batch), made(batch), rtol=1e-4, atol=1e-5)


def test_a_graph_computes_all_batches_and_sizes_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where larger ones would be computed in another way (their biases are too large as a whole)."""
    monkeypatch.setattr("ndformer.framework.kernels.sdpa.MASK", 2 * 13 * 13)
    made = model(dict(type="ALiBi"))
    found = graph.graph(made, images(2)).module()
    for batch in (images(40), images(1, 40, 40)):
        torch.testing.assert_close(found(batch), made(batch))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, head", [("NoPE", "classifier"), ("CPE", "classifier"), ("PaPE", "detector"), ("NoPE", "segmenter")]
)
def test_a_graph_takes_images_with_sides_of_one_and_two_patches(name: str, head: str) -> None:
    made = model(dict(type=name), head == "classifier", **HEADS[head])
    exported = graph.graph(made, images(2)).module()
    sizes = [(4, 36), (36, 4), (8, 8), (16, 8)]
    sizes += [(4, 4)] if head == "classifier" else []  # a graph of maps needs more than one patch
    for batch in (images(1 + i % 2, *size) for i, size in enumerate(sizes)):
        expected = graph._by_name(graph._TensorOutputs(made)(batch))
        for key, value in graph._by_name(exported(batch)).items():
            torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_pixels_are_answered_by_a_graph_too() -> None:
    neck = dict(type="SimpleFeaturePyramid", scales=(2, 1))
    made = model(dict(type="PaPE"), False, type="Segmenter", classes=5, patch=4, neck=neck)
    found = graph.graph(made, images(2)).module()
    for batch in OTHERS:
        torch.testing.assert_close(found(batch), made(batch), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module", "onnx"])
def test_a_graph_of_a_detector_gives_boxes_and_logits_by_name(kind: str, tmp_path: Path) -> None:
    neck = dict(type="SimpleFeaturePyramid", width=8, scales=(0.5,))
    made = model(dict(type="ALiBi"), False, type="Detector", classes=3, patch=4, neck=neck)
    graphed = graph.graph(made, images(2))
    run: Any = graphed.module()
    if kind == "onnx":
        pytest.importorskip("onnxscript")
        runtime = pytest.importorskip("onnxruntime")
        graph.save(tmp_path / "model.onnx", graphed)
        session = runtime.InferenceSession(tmp_path / "model.onnx")
        names = ["boxes", "logits"]
        run = lambda x: dict(zip(names, map(torch.from_numpy, session.run(names, dict(inputs=x.numpy())))))
    for batch in (images(1), images(3, 24, 16), images(2, 12, 72)):
        expected, found = made(batch), run(batch)
        assert list(found) == ["boxes", "logits"]
        torch.testing.assert_close(found["boxes"], expected.boxes, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found["logits"], expected.logits, rtol=1e-4, atol=1e-5)


def test_what_becomes_no_graph_is_a_sentence_and_the_model_trains_on() -> None:
    class Looking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.sum() > 0 else x

    looking = Looking()
    with pytest.raises(
        DataError, match=r"cannot be exported as a graph \(.*\)\. Supported are classifiers, detectors, segmenters and"
    ):
        graph.graph(looking, torch.ones(2, 3))
    assert looking.training


@pytest.mark.slow
def test_modes_of_all_modules_are_as_before(tmp_path: Path) -> None:
    made = model(dict(type="Sincos")).train()
    made.backbone.eval()
    before = [part.training for part in made.modules()]
    graph.save(tmp_path / "a.pt2", graph.graph(made, images(2)))
    assert graph.max_difference(tmp_path / "a.pt2", made, [images(1)]) is not None
    assert [part.training for part in made.modules()] == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", ["PaPE", "RelativeBias and PoPE", "LearnableAbsolute and CoPE and SaPE2", "PRoPE", "GTA"]
)
def test_onnx_gives_the_same_at_all_sizes(tmp_path: Path, names: str) -> None:
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    made = model([dict(type=name) for name in names.split(" and ")])
    graph.save(tmp_path / "model.onnx", graph.graph(made, images(2)))
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    for batch in OTHERS:
        (found,) = session.run(["logits"], dict(inputs=batch.numpy()))
        np.testing.assert_allclose(found, made(batch).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert cast(float, graph.max_difference(tmp_path / "model.onnx", made, OTHERS)) < 1e-4


PYRAMID = dict(type="SimpleFeaturePyramid", width=16, scales=(2, 1, 0.5))
HEADS: dict[str, dict[str, Any]] = {
    "classifier": dict(type="Classifier", classes=5, pool="class"),
    "detector": dict(type="Detector", classes=3, patch=4, neck=PYRAMID),
    "segmenter": dict(type="Segmenter", classes=5, patch=4, neck=PYRAMID),
}
PAPER = ["NoPE", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "PaPE", "PaPERI", "RelativeBias"]
EXPORTS = [(name, head) for head in HEADS for name in PAPER]
EXPORTS += [(name, "classifier") for name in ("LearnableAbsolute", "PoPE", "CoPE", "SaPE2")]


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("EXPORTS") != "all", reason="half an hour: make exports")
@pytest.mark.parametrize("ending", graph.ENDINGS)
@pytest.mark.parametrize("name, head", EXPORTS)
def test_files_of_all_tasks_compute_what_their_models_do(name: str, head: str, ending: str, tmp_path: Path) -> None:
    made = model(dict(type=name), head == "classifier", depth=2, **HEADS[head])
    for weight in made.parameters():
        nn.init.normal_(weight, std=0.15)
    path = tmp_path / f"model{ending}"
    graph.save(path, graph.graph(made, images(2, 32, 24)))
    largest = graph.max_difference(path, made, [images(2, 32, 24), images(1, 16, 40), images(3, 56, 56)])
    print(f"{name}, {head}, {ending}: {largest}")
    assert cast(float, largest) < 1e-4


def test_another_models_file_is_told_from_its_own(tmp_path: Path) -> None:
    made, other = model(dict(type="NoPE")), model(dict(type="NoPE"))
    graph.save(tmp_path / "model.pt2", graph.graph(made, images(2)))
    assert cast(float, graph.max_difference(tmp_path / "model.pt2", made, OTHERS)) < 1e-5
    with torch.no_grad():
        other.head.get_parameter("linear.bias")[3] += 0.01
    assert 0.001 < cast(float, graph.max_difference(tmp_path / "model.pt2", other, OTHERS)) < 0.0101


@pytest.mark.slow
def test_what_onnx_does_not_know_is_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(DataError, match=r"\.onnx, which has no operator aten\._linalg_eigh\. Write a \.pt2"):
        graph.save(tmp_path / "model.onnx", graph.graph(model(dict(type="ComRoPE")), images(2)))


METADATA: dict[str, Any] = dict(
    classes=list("abcdefghij"),
    mean=[0.485, 0.456, 0.406],
    std=[0.229, 0.224, 0.225],
    color="RGB",
    input_size=[32, 32],
    longest_side=None,
    size_multiple_of=[4, 4],
    axes=dict(inputs=["batch", "channels", "height", "width"], logits=["batch", "classes"]),
)


def test_a_graph_of_images_at_their_own_ratios_states_their_longer_side() -> None:
    cfg = load(ROOT / "configs" / "imagefolder_native.py", ["preset=small", "model.head.classes=2"])
    about = export.graph_metadata(cfg, build_model(cfg, "meta"), ["left", "right"])
    assert (about["input_size"], about["longest_side"], about["size_multiple_of"]) == (None, 60, [6, 6])


@pytest.mark.slow
def test_an_onnx_file_says_how_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 44.10: names of classes, mean, std, sizes and axes were in no file."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    cfg = load(ROOT / "configs" / "cifar10_pape.py", ["model.backbone.dim=24", "model.backbone.depth=1",
                                                      "model.backbone.heads=2"])  # fmt: skip
    made = build_model(cfg).eval()
    found = export.graph_metadata(cfg, made, list("abcdefghij"))
    graph.save(tmp_path / "g.onnx", graph.graph(made, images(2)), found)
    metadata = runtime.InferenceSession(tmp_path / "g.onnx").get_modelmeta().custom_metadata_map
    assert {name: json.loads(metadata[name]) for name in METADATA} == METADATA
    page = (ROOT / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "custom_metadata_map" in block]
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)).save(tmp_path / "cat.png")
    (tmp_path / "g.onnx").rename(tmp_path / "pape.onnx")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out.strip() in METADATA["classes"]


@pytest.mark.slow
def test_a_trained_model_is_exported_without_its_data(tmp_path: Path) -> None:
    """By the program, from the folder of a run whose data is nowhere. Issue 44.10: it makes the folder of its file."""
    options = ["data_root=nowhere", "model.backbone.dim=24", "model.backbone.depth=1", "model.backbone.heads=2"]
    cfg = load(ROOT / "configs" / "cifar10_pape.py", options)
    made = build_model(cfg).eval()
    nn.init.normal_(made.head.linear.weight)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    saved.write(tmp_path, cfg.to_dict())
    checkpoint.save(tmp_path / "best.pth", dict(model=made.state_dict(), classes=list("abcdefghij")))

    program = (
        "import json, sys, runpy\n"
        "for out, *options in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['export', 'config.py', 'best.pth', out, *options]\n"
        "    try:\n"
        f"        runpy.run_path({str(ROOT / 'tools' / 'export.py')!r}, run_name='__main__')\n"
        "    except SystemExit as end:\n"
        "        print(end)\n"
    )
    (tmp_path / "file").write_text("")
    wanted = [["new/w.safetensors"], ["g.pt2", "--size", "32", "32"], ["g.png"], ["file/w.safetensors"], ["file/card"]]
    ran = subprocess.run(
        [sys.executable, "-c", program, json.dumps(wanted)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout, ran.stderr
    first, begun, said, second, *sentences = ran.stdout.splitlines()
    assert (first, second) == ("new/w.safetensors", "g.pt2"), ran.stderr
    assert begun.startswith("making a graph")
    sizes = "2 x 32 x 32, 1 x 32 x 44, 3 x 40 x 32"
    assert re.fullmatch(rf"at most \d\.\de[-+]\d\d different from the model, with images of {sizes}", said)
    assert sentences == [
        "export: expected .safetensors for weights, .pt2 or .onnx for a graph, got g.png",
        "export: the folder of file/w.safetensors cannot be created (File exists). Choose another one",
        "export: the folder of file/card cannot be created (File exists). Choose another one",
    ]
    extra: dict[str, Any] = {graph.METADATA: ""}
    torch.export.load(tmp_path / "g.pt2", extra_files=extra)
    assert json.loads(extra[graph.METADATA]) == METADATA
    given = checkpoint.load(tmp_path / "new/w.safetensors")
    assert given["classes"] == list("abcdefghij")
    assert all(torch.equal(given["model"][name], value) for name, value in made.state_dict().items())
    x = torch.randn(3, 3, 36, 60)
    torch.testing.assert_close(torch.export.load(tmp_path / "g.pt2").module()(x), made(x), rtol=1e-4, atol=1e-5)


def test_a_graph_of_a_regressor_returns_predicted_values_and_references_by_composition_are_refused() -> None:
    made = model(dict(type="Sincos"), type="Regressor", classes=2, readout=["mean", "sum"])
    head = cast(Regressor, made.head)
    head.mean[:], head.spread[:] = torch.tensor([3.0, -7.0]), torch.tensor([2.0, 0.5])
    outputs = graph.graph(made, images(2)).module()(batch := images(3))
    answers = made(batch, [dict(path="")] * 3, mode="predict")
    torch.testing.assert_close(outputs["values"], torch.stack([answer.values for answer in answers]).float())
    head.reference[1, 6] = -38.0
    with pytest.raises(DataError, match=r"^Regressor: expected targets without references per part for a graph, got"):
        graph.graph(made, images(2))
