"""Train a small detector of 64 x 64 pixels in bf16 and fp16, and compare its losses with float32.

python -m tests.soak.sixteen
"""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.registry import MODELS, TRANSFORMS
from ndformer.modalities.image.stand_ins.crowds import draw_image

CONFIG = Path(__file__).parents[2] / "configs" / "coco_pape.py"
SMALL = ["model.backbone.dim=32", "model.backbone.depth=2", "model.backbone.heads=2", "model.head.neck.width=32"]


def losses(dtype: torch.dtype | None, steps: int, batch: int = 4) -> list[float]:
    """Return the loss of each step. Weights and images depend on the seed alone, not on the dtype."""
    cfg = load(CONFIG, SMALL, sample=True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model).train()
    wrapper = OptimWrapper(torch.optim.AdamW(model.parameters(), 1e-3), "cpu", epoch=steps, amp=dtype)
    rng, pack = np.random.default_rng(0), TRANSFORMS.create(dict(type="PackBoxes"))
    found = []
    for _ in range(steps):
        samples = []
        for _ in range(batch):
            drawn = draw_image(64, 64, rng)
            one = dict(image=drawn.image, size=(64, 64), frame=np.array([1.0, 1, 0, 0]))
            samples.append(one | dict(boxes=drawn.boxes[~drawn.crowd], labels=drawn.labels[~drawn.crowd]))
        given = collate([pack(one | dict(image=Image.fromarray(one["image"])), rng) for one in samples])
        with wrapper.optim_context(model):
            loss = model(**given, mode="loss")["loss"]
        wrapper.update_params(loss)
        found.append(loss.item())
    assert all(torch.isfinite(p).all() for p in model.parameters())
    return found


if __name__ == "__main__":
    exact, rough = np.mean(losses(None, 50)), np.mean(losses(torch.bfloat16, 50))
    print(f"mean loss of 50 steps: float32 {exact:.4f}, bf16 {rough:.4f} ({rough / exact - 1:+.2%})")
    half = losses(torch.float16, 500)
    print(f"fp16, 500 steps: {int(np.sum(~np.isfinite(half)))} not finite; from {half[0]:.2f} to {half[-1]:.2f}")
