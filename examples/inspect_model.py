"""Where a trained model looks: load a checkpoint into the model of its config, and read its attention.

The checkpoint is made here, in seconds: which quarter of an image is bright? On pictures, for a model of yours:
tools/show_attention.py CONFIG CHECKPOINT photo.jpg (docs/how-to/look.md).
"""

import tempfile
from pathlib import Path

import torch

from ndformer.framework.attention_maps import on_grid, record_attention
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint

torch.manual_seed(0)
config = Path(__file__).parents[1] / "configs/cifar10_pape.py"
cfg = load(
    config, ["model.backbone.dim=32", "model.backbone.depth=2", "model.backbone.heads=2", "model.head.classes=4"]
)


def generate_sample(label: torch.Tensor) -> dict:
    images = torch.randn(len(label), 3, 2, 16, 2, 16) / 4  # (B, channels, 2 x 16 rows, 2 x 16 columns)
    images[torch.arange(len(label)), :, label // 2, :, label % 2] += 1
    return dict(inputs=dict(image=images.flatten(4).flatten(2, 3)), data_samples=[dict(label=int(n)) for n in label])


model = build_model(cfg)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(30):
    optimizer.zero_grad()
    model(**generate_sample(torch.arange(32) % 4), mode="loss")["loss"].backward()
    optimizer.step()
path = Path(tempfile.mkdtemp()) / "best.pth"
checkpoint.save(
    path, dict(model=model.state_dict(), classes=["upper left", "upper right", "lower left", "lower right"])
)

content = checkpoint.load(path)
model = build_model(cfg).eval()
checkpoint.load_weights(model, content, path)
with torch.no_grad(), record_attention(model) as maps:
    (answer,) = model(**generate_sample(torch.tensor([1])), mode="predict")
print(f"says {content['classes'][answer.prediction]} ({answer.scores.max():.2f}); is upper right")
attention = maps[-1].attention()[0].mean(0)  # of the last layer, its heads averaged: (N, N)
for row in on_grid(attention[0], maps[-1].where):  # where the class token, the first one, looks: (rows, columns)
    print(*(f"{share:5.1%}" for share in row.tolist()))
