"""Checkpoints of the PaPE paper: image and video classifiers with PaPE.

The paper's code orders image positions as (column, row) and has b with the opposite sign: it adds
<b_i, Wp (r_i - r_j)>. Patches are numbered from 1, with the class token at 0. Weights of PaPE-RI, of event models and
of detectors have other names and are refused.
"""

from typing import Any

from ndformer.framework.errors import DataError
from ndformer.framework.importer import Imported, State, StateDictReader, head_count, importer
from ndformer.integrations.importers import vit

NAMES = vit.Names("encoder.layers.{}.", "attention.qkv_proj", "attention.out_proj", "ffn.fc1", "ffn.fc2")


@importer("pape", "none is given, so all rights are reserved: ask its authors before you use or pass on what comes out")
def convert(state_dict: State, head_dim: int) -> Imported:
    lightning = any(name.startswith(("classifier.encoder.", "classifier._orig_mod.")) for name in state_dict)
    prefix = r"^(classifier\.)?(_orig_mod\.)?" if lightning else r"^(_orig_mod\.)?"
    reader = StateDictReader(state_dict, "a classifier of the PaPE paper", prefix)
    if "embedding.projection.weight" in reader:
        raise DataError(
            "expected an image or video classifier of the PaPE paper, got embedding.projection.weight, as in its event "
            "models. Event models cannot be converted"
        )
    dim = vit.width(reader, "embedding")
    heads = head_count(dim, head_dim)
    dims = reader.left["embedding.weight"].dim() - 2
    wp, m = _parabolas(reader, dim, heads, dims)
    cls = reader.take("cls", 1, 1, dim)
    body = vit.backbone(
        reader,
        dim,
        head_dim,
        dict(type="PaPE", m=m),
        eps=1e-5,
        names=NAMES,
        norm="encoder.norm_post",
        initial_norm="encoder.norm_pre",
        position_dims=dims,
        more=wp,
    )
    place: dict[str, Any] = dict(class_at="origin", start=1)
    if dims == 2:
        parts = {"modalities.image": vit.patches(reader, "embedding", cls, **place)}
    else:
        parts = {"modalities.video": vit.tubelets(reader, "embedding", dim, cls, **place)}
    parts["backbone"] = body
    parts |= vit.classifier(reader, dim, "class", "classifier")
    return Imported(parts, reader.check_unused(), vit.assumed(head_dim, 1e-5) + ", normalize=False")


def _parabolas(reader: StateDictReader, dim: int, heads: int, dims: int) -> tuple[State, int]:
    """Return wp, wa and wb of all layers, and m."""
    found: State = {}
    m = 0
    for i in range(reader.count(r"encoder\.layers\.(\d+)\.")):
        source, target = f"encoder.layers.{i}.attention.position_encoder.", f"blocks.{i}.attention.encoding."
        wp = reader.take(f"{source}position.weight", None, dims)  # (H m, P)
        if len(wp) % heads:
            raise DataError(
                f"{source}position.weight: expected a multiple of {heads} rows, one set for each head, got {len(wp)}"
            )
        m = len(wp) // heads
        wa, wb = reader.take(f"{source}ab.weight", 2 * heads * m, dim).view(2, heads, m, dim)
        wp = wp.view(heads, m, dims)
        found |= {f"{target}wp": wp.flip(-1) if dims == 2 else wp, f"{target}wa": wa, f"{target}wb": -wb}
    return {name: value.contiguous() for name, value in found.items()}, m
