"""Numbers of the SaPE2 paper's tables, as they are printed."""

from ndformer.lab.experiment import printed

TABLE1 = printed(  # top-1 accuracy, in %
    ("CIFAR10", "CIFAR100"),
    {
        "ViT": "87.41 66.54",
        "2D RoPE": "89.92 70.71",
        "2D RoPE + APE": "89.98 71.32",
        "CoPE + APE": "92.54 72.10",
        "SaPE2": "91.06 71.29",
        "SaPE2 + APE": "93.98 72.23",
    },
)
TABLE2 = printed(  # accuracy on CIFAR-10, in %
    ("top1", "top5"), {"APE": "87.41 99.47", "SaPE2(K) + APE": "93.98 99.71", "SaPE2(Q) + APE": "90.17 99.46"}
)
TABLE3 = printed(
    ("size", "categories", "train", "eval"), {"CIFAR10": "32 10 50,000 10,000", "CIFAR100": "32 100 50,000 10,000"}
)
