"""The PaPE paper's own checkpoints: classifiers of images and of videos, with PaPE.

Theirs has positions of images as (column, row), and b with the other sign: it adds <b_i, Wp (r_i - r_j)>. Patches are
counted from 1, with the class token at 0. Weights of PaPE-RI, of events and of detectors have other names, and are
refused by them.
"""

from typing import Any

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, Taken, heads_of, stacked

LICENCE = "none is given, so all rights are reserved: ask its authors before you use or pass on what comes out"
INSIDE = ("state_dict", "model")
HEAD_DIM = 64
NAMES = vit.Names("encoder.layers.{}.", "attention.qkv_proj", "attention.out_proj", "ffn.fc1", "ffn.fc2")


def convert(given: State, head_dim: int) -> Imported:
    trained = any(name.startswith(("classifier.encoder.", "classifier._orig_mod.")) for name in given)  # by Lightning
    prefix = r"^(classifier\.)?(_orig_mod\.)?" if trained else r"^(_orig_mod\.)?"
    taken = Taken(given, "a classifier of the PaPE paper", prefix)
    if "embedding.projection.weight" in taken:
        raise DataError(
            "embedding.projection.weight is of events: of the PaPE paper's, images and videos are converted"
        )
    dim = vit.width(taken, "embedding")
    heads = heads_of(dim, head_dim)
    dims = taken.left["embedding.weight"].dim() - 2
    wp, m = _parabolas(taken, dim, heads, dims)
    cls = taken.take("cls", 1, 1, dim)
    body = vit.backbone(
        taken,
        dim,
        head_dim,
        dict(type="PaPE", m=m),
        eps=1e-5,
        names=NAMES,
        norm="encoder.norm_post",
        position_dims=dims,
        more=wp,
    )
    first = taken.pair("encoder.norm_pre", "initial_norm", dim)
    place: dict[str, Any] = dict(class_at="origin", start=1)
    if dims == 2:
        adapter = dict(image=vit.patches(taken, "embedding", cls, **place))
    else:
        project = taken.pair("embedding", "project", dim, 3, None, None, None)
        tubelet = tuple(project["project.weight"].shape[2:])
        config = dict(type="Tubelets", tubelet=tubelet, class_token=True, **place)
        adapter = dict(video=Part(config, project | dict(tokens=stacked(cls))))
    parts = {f"modalities.{name}": part for name, part in adapter.items()}
    parts["backbone"] = Part(body.config | dict(initial_norm=True), body.weights | first)
    parts |= vit.classifier(taken, dim, "class", "classifier")
    return Imported(parts, taken.rest(), vit.assumed(head_dim, 1e-5) + ", normalize=False")


def _parabolas(taken: Taken, dim: int, heads: int, dims: int) -> tuple[State, int]:
    """wp, wa and wb of all layers, and m."""
    found: State = {}
    m = 0
    for i in range(taken.count(r"encoder\.layers\.(\d+)\.")):
        theirs, ours = f"encoder.layers.{i}.attention.position_encoder.", f"blocks.{i}.attention.encoding."
        wp = taken.take(f"{theirs}position.weight", None, dims)  # (H m, P)
        if len(wp) % heads:
            raise DataError(f"{theirs}position.weight has {len(wp)} rows, which {heads} heads do not divide")
        m = len(wp) // heads
        wa, wb = taken.take(f"{theirs}ab.weight", 2 * heads * m, dim).view(2, heads, m, dim)
        wp = wp.view(heads, m, dims)
        found |= {f"{ours}wp": wp.flip(-1) if dims == 2 else wp, f"{ours}wa": wa, f"{ours}wb": -wb}
    return {name: value.contiguous() for name, value in found.items()}, m
