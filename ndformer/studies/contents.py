"""What the five papers have, in their order: names of tables and figures, and why some have no experiment.

Of 2D sines there is a note without any, of ViTARC an excerpt without captions, which names two figures.
"""

CONTENTS: dict[str, tuple[str, ...]] = {
    "pape": (
        *("Figure 1", "Figure 2", "Table 1", "Table 2", "Table 3", "Table 4", "Figure 3"),
        *("Table 5", "Table 6", "Table 7", "Table 8"),
    ),
    "sape2": ("Figure 1", "Figure 2", "Figure 3", "Table 1", "Table 2", "Figure 4", "Table 3"),
    "sincos2d": (),
    "thesis": (
        *("Figure 1", "Figure 2", "Table 1", "Figure 3", "Table 2", "Table 3", "Figure 4", "Table 4", "Figure 5"),
        *("Table 5", "Section 5.1", "Table 6", "Figure 6", "Table 7", "Table 8", "Table 9"),
        *("Figure 2.1", "Figure 3.1", "Figure 3.2", "Figure 3.3", "Figure 4.1", "Figure 4.2"),
        *("Figure 5.1", "Figure 5.2", "Figure 5.3", "Figure 5.4"),
    ),
    "vitarc": ("equations 11 to 13", "Figure 6", "Figure 1"),
}
NOT_MEASURED: dict[str, dict[str, str]] = {  # paper -> name -> why there is nothing to measure
    "sape2": {"Figure 1": "a drawing of the method beside absolute and relative encodings"},
    "thesis": {
        "Figure 1": "a photograph with arrows: what location may mean",
        "Figure 2": "sample images of the data of Table 1",
        "Figure 4": "sample images of the data of Table 4",
        "Table 5": "a summary of Tables 1 to 4 and Figure 3 in words; the verdicts are with those",
        "Table 6": "sizes of data sets",
        "Figure 2.1": "Figure 1 again",
        "Figure 3.1": "a drawing of the vision transformer",
        "Figure 3.2": "a drawing of its block",
        "Figure 3.3": "a drawing of attention",
        "Figure 4.1": "a drawing of translation equivariance",
        "Figure 4.2": "a drawing of convolution",
        "Figure 5.1": "Figure 2 again",
        "Figure 5.2": "sample images of CIFAR-10",
        "Figure 5.3": "sample images of Flower-102",
        "Figure 5.4": "sample images of Tiny-ImageNet",
    },
}
