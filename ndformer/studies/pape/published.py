"""Figures of the PaPE paper's tables (version 1), as they are printed."""

from ndformer.lab.experiment import printed

_SETS = ("ImageNet-1K", "COCO", "ScanNet", "ModelNet40", "UCF101", "DvsGesture", "GEN1", "nuScenes", "Average")
_TABLE1 = {
    "nD-sincos": "79.9 34.7 72.6 92.2 38.7 93.4 27.3 67.4 63.3",
    "RoPE": "80.3 38.8 71.7 93.0 43.9 93.1 33.6 68.3 65.3",
    "RoPE-Mixed": "80.0 38.0 71.1 93.0 41.2 83.3 31.7 66.3 63.1",
    "nD-ALiBi": "80.0 33.9 70.6 93.2 41.6 89.2 28.8 68.5 63.2",
    "LookHere": "80.5 37.3",
    "PaPE": "80.6 38.9 71.0 93.3 49.5 93.4 34.8 68.7 66.3",
    "PaPE-RI": "80.0 34.3 69.3 92.7 42.2 90.6 28.5 68.9 63.3",
}
TABLE1 = printed(_SETS, _TABLE1)

TABLE2 = {
    "PaPE": "79.2",
    "without distance": "77.2",
    "without direction": "77.0",
    "without context": "77.2",
    "without activation": "77.5",
    "without Wp": "78.9",
}
TABLE3 = {"m=2": "77.1", "m=4": "77.3", "m=8": "79.0", "m=16": "79.0", "m=32": "78.9", "m=64": "79.2"}

TABLE4 = {  # row -> milliseconds, positional parameters
    "nD-sincos": ("1.5", "0"),
    "nD-ALiBi": ("1.5", "0"),
    "RoPE": ("1.6", "0"),
    "RoPE-Mixed": ("1.6", "18.4K"),
    "PaPE m=2": ("1.7", "0.5M"),
    "PaPE m=4": ("1.7", "0.9M"),
    "PaPE m=8": ("1.7", "1.8M"),
    "PaPE m=16": ("1.8", "3.6M"),
    "PaPE m=32": ("1.8", "7.1M"),
    "PaPE m=64": ("1.9", "13.6M"),
}

SIZES = (224, 320, 384, 448, 512, 640, 768, 896, 1024)
_TABLE5 = {  # positions go on counting
    "nD-sincos": "79.9 76.8 72.6 65.9 57.5 41.3 27.2 16.8 9.3",
    "RoPE": "80.3 80.9 80.6 79.7 78.2 74.0 67.0 56.2 42.3",
    "RoPE-Mixed": "80.0 80.4 79.2 77.1 73.6 61.5 43.4 27.1 17.1",
    "nD-ALiBi": "80.0 78.4 77.8 76.6 75.3 72.2 68.3 64.1 59.1",
    "LookHere": "80.5 81.4 81.1 80.4 79.7 77.5 74.2 69.6 64.4",
    "PaPE": "80.6 81.6 81.7 81.6 81.3 80.5 79.2 77.3 74.9",
    "PaPE-RI": "80.0 80.2 79.2 78.1 76.9 73.6 69.7 64.6 58.6",
}
_TABLE6 = {  # positions are interpolated
    "nD-sincos": "79.9 79.9 78.8 77.4 75.8 71.8 66.9 61.3 56.0",
    "RoPE": "80.3 80.6 80.0 78.9 77.6 74.5 69.9 64.8 59.8",
    "RoPE-Mixed": "80.0 72.9 72.1 73.0 67.8 63.5 56.1 49.5 42.9",
    "nD-ALiBi": "80.0 77.9 77.2 76.0 74.4 70.6 65.4 59.8 53.9",
    "LookHere": "80.5 80.9 80.2 78.9 77.4 73.6 68.8 63.7 59.0",
    "PaPE": "80.6 80.7 79.6 78.1 76.5 72.0 66.4 60.4 54.8",
    "PaPE-RI": "80.0 80.3 79.4 78.1 76.4 72.2 66.5 59.7 52.8",
}
INTERPOLATED = ("nD-sincos", "RoPE", "RoPE-Mixed")  # in Table 7, the best of both ways for each
TABLE5, TABLE6 = (printed(map(str, SIZES), rows) for rows in (_TABLE5, _TABLE6))
TABLE7 = {row: (TABLE6 if row in INTERPOLATED else TABLE5)[row] for row in TABLE5}

_PARAMETERS = ("batch", "lr", "decay", "beta1", "beta2", "warmup", "epochs", "patch", "drop path", "smoothing")
_TABLE8 = {  # set -> in the order of parameters; resolutions are in words
    "ImageNet-1K": "1024 0.0006 0.05 0.9 0.999 15 300 16 0.1 0.1",
    "COCO": "64 0.0006 0.05 0.9 0.999 15 150 16 0.1 -",
    "ScanNet": "12 0.006 0.05 0.9 0.999 40 800 1024 0.3 -",
    "ModelNet40": "32 0.001 0.01 0.9 0.999 5 300 1024 0.3 -",
    "UCF101": "32 0.00003 0.05 0.9 0.999 20 200 16 0.1 -",
    "DvsGesture": "32 0.00005 0.05 0.9 0.999 15 300 16 0.1 0.1",
    "GEN1": "64 0.0001 0.05 0.9 0.999 7.5 150 16 0.1 -",
    "nuScenes": "3 0.003 0.03 0.9 0.99 1 10 8 - -",
}
TABLE8 = printed(_PARAMETERS, _TABLE8)
