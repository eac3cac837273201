"""COCO's twelve numbers, computed by this package, pycocotools or faster-coco-eval."""

import contextlib
import importlib
import io
from typing import Any, Literal

from ndformer.framework.evaluation.coco.average import NAMES, evaluate
from ndformer.framework.evaluation.coco.files import listed
from ndformer.framework.evaluation.coco.match import Detections, Truth

Backend = Literal["builtin", "faster_coco_eval", "pycocotools"]
BACKENDS: tuple[str, ...] = ("builtin", "faster_coco_eval", "pycocotools")


def twelve(truth: Truth, detections: Detections, images: int, classes: int, backend: Backend) -> dict[str, float]:
    if backend == "builtin":
        return evaluate(truth, detections, images, classes).numbers()
    try:
        package: Any = importlib.import_module(backend)
        index: Any = importlib.import_module("pycocotools.coco").COCO if backend == "pycocotools" else package.COCO
        module = importlib.import_module("pycocotools.cocoeval") if backend == "pycocotools" else package
    except ImportError:
        name = backend.replace("_", "-")
        raise ImportError(f"backend='{backend}' needs {name}: pip install {name}, or use 'builtin'") from None
    evaluation: Any = module.COCOeval if backend == "pycocotools" else module.COCOeval_faster
    if not len(detections.score):  # pycocotools cannot load an empty list
        return evaluate(truth, detections, images, classes).numbers()
    with contextlib.redirect_stdout(io.StringIO()):
        ground_truth = index()
        ground_truth.dataset = as_json(truth, images, classes)
        ground_truth.createIndex()
        results = ground_truth.loadRes(listed(detections, range(1, images + 1), range(1, classes + 1)))
        evaluator = evaluation(ground_truth, results, "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    return dict(zip(NAMES, map(float, evaluator.stats)))


def as_json(truth: Truth, images: int, classes: int) -> dict[str, Any]:
    """Return a COCO ground truth with ids from 1, because pycocotools counts annotation 0 as missed."""
    rows = zip(*(x.tolist() for x in (truth.image, truth.label, truth.box, truth.area, truth.crowd)))
    return dict(
        info={},
        images=[dict(id=i + 1) for i in range(images)],
        categories=[dict(id=k + 1, name=str(k)) for k in range(classes)],
        annotations=[
            dict(id=n, image_id=i + 1, category_id=k + 1, bbox=box, area=area, iscrowd=int(crowd))
            for n, (i, k, box, area, crowd) in enumerate(rows, 1)
        ],
    )
