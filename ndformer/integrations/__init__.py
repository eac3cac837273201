"""Position encodings for models of timm and Hugging Face: `timm.with_encoding(vit, "PaPE(m=50)")`."""
