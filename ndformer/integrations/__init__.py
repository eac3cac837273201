"""Our encodings inside models of other packages: `timm.with_encoding(vit, "PaPE(m=50)")`, and `huggingface`'s."""
