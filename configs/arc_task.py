"""One task of ARC, its own pairs and pairs that its generator draws: a small encoder.
Cost: minutes on a CPU.
Reaches: solve rates on twelve tasks are in docs/papers/vitarc.md.
Command: ndformer train arc_task --data-root data/arc_agi
"""

# Canvases of 11 x 11 hold grids of up to 10 x 10. `ndformer compare arc_task --encodings Sincos ObjectSincos` compares
# encodings, `--cfg-options dataset.tasks=[a5313dff]` takes another task: docs/get-started/arc.md has the list.

data_root = "data/arc_agi"
model = dict(
    type="TokenModel",
    modalities=dict(arc=dict(type="GridCells")),
    backbone=dict(
        type="Transformer",
        dim=64,
        depth=3,
        heads=4,
        position_dims=2,
        encoding=[
            dict(type="PEMixer", second=dict(type="ObjectSincos")),
            dict(type="DirectionalRPE"),
        ],
        initial_norm=True,
    ),
    head=dict(type="CellReader", classes=14),
)

_pack = [dict(type="PackGrid", canvas=11)]
dataset = dict(type="ArcTasks", tasks=["60b61512"], drawn=2000)
train_dataloader = dict(batch_size=32, num_workers=0, dataset=dict(split="train", transforms=_pack))
val_dataloader = dict(batch_size=100, num_workers=0, dataset=dict(split="val", transforms=_pack))
test_dataloader = dict(batch_size=100, num_workers=0, dataset=dict(split="test", transforms=_pack))

optimizer = dict(type="AdamW", lr=2e-3, weight_decay=0.01)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=12, clip_grad=1.0)
metrics = [dict(type="SolveRate")]

sample_data = "arc"
sample = dict(data_root="data/samples/arc", dataset=dict(drawn=400), train_cfg=dict(max_epochs=6))
