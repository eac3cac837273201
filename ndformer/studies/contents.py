"""Tables and figures of the papers in their order, and why some have no experiment.

The note on 2D sines has neither; the excerpt of ViTARC has no captions, and mentions two figures.
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
NOT_MEASURED: dict[str, dict[str, str]] = {  # paper -> name -> reason
    "sape2": {"Figure 1": "a drawing of the method and of absolute and relative encodings"},
    "thesis": {
        "Figure 1": "a photograph with arrows that explains location",
        "Figure 2": "sample images of the data of Table 1",
        "Figure 4": "sample images of the data of Table 4",
        "Table 5": "a summary of Tables 1 to 4 and Figure 3 in words; see their verdicts",
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
NOTES = {  # paper -> statements of its text that disagree with its own tables
    "pape": """
44 of 51 statements that the text makes about its tables (version 1) agree with the printed numbers
([numbers](pape_text_small/results.json)). Seven do not:

- RoPE-Mixed does poorly on GEN1: it is fourth from the bottom.
- nD-sincos is second lowest on 2 sets: on one.
- On ModelNet40 all translation-invariant encodings are at least 0.8 above nD-sincos: the smallest difference is 0.5.
- On ModelNet40 no rotation-invariant encoding is above one that is not: four pairs are.
- PaPE gains 1 % at all sizes up to 512: the smallest gain is 0.7.
- PaPE falls below its accuracy at 224 only after 640: at 640 it is 0.1 below.
- Interpolation harms all four attention biases: up to twice the size, PaPE-RI changes by 0.0 to +0.2.

The statements are in our words. The two folders were made by an earlier version of the program.
""",
    "thesis": """
One statement of the text disagrees with its table: both new methods are "slightly better on all testing datasets" than
regularization by self-supervision (section 6.2), but on CIFAR-100 pretrained Fourier is 0.04 below it (Table 7).
""",
    "sape2": """
7 of 8 statements that the text makes about its tables agree with the printed numbers
([numbers](sape2_text_small/results.json)). One does not: SaPE2 with Q is 0.01 below APE in top-5 accuracy (5.3 (1)).
""",
}
