"""Figures of the SaPE2 paper's tables, as they are printed."""

_TABLE1 = {  # top-1 accuracy on CIFAR-10 and CIFAR-100, in %
    "ViT": "87.41 66.54",
    "2D RoPE": "89.92 70.71",
    "2D RoPE + APE": "89.98 71.32",
    "CoPE + APE": "92.54 72.10",
    "SaPE2": "91.06 71.29",
    "SaPE2 + APE": "93.98 72.23",
}
TABLE1: dict[str, dict[str, str]] = {
    row: dict(zip(("CIFAR10", "CIFAR100"), figures.split())) for row, figures in _TABLE1.items()
}
_TABLE2 = {  # top-1 and top-5 accuracy on CIFAR-10, in %
    "APE": "87.41 99.47",
    "SaPE2(K) + APE": "93.98 99.71",
    "SaPE2(Q) + APE": "90.17 99.46",
}
TABLE2: dict[str, dict[str, str]] = {row: dict(zip(("top1", "top5"), f.split())) for row, f in _TABLE2.items()}
_TABLE3 = {"CIFAR10": "32 10 50,000 10,000", "CIFAR100": "32 100 50,000 10,000"}
TABLE3: dict[str, dict[str, str]] = {
    row: dict(zip(("size", "categories", "train", "eval"), figures.split())) for row, figures in _TABLE3.items()
}
