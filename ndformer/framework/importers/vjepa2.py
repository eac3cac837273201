"""V-JEPA 2's video encoders: tubelets, no class token, RoPE with tiled frequencies and adjacent channel pairs."""

from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, StateDictReader

EPS = 1e-6
UNUSED = r"pos_embed"  # sinusoidal embeddings that are not used


def convert(state_dict: State, head_dim: int) -> Imported:
    reader = StateDictReader(state_dict, "V-JEPA 2", r"^(module\.)?(backbone\.)?")
    dim = vit.width(reader, "patch_embed.proj")
    if reader.left["patch_embed.proj.weight"].dim() != 5:
        raise DataError(
            "patch_embed.proj.weight: expected 5 dimensions, as in V-JEPA 2's video encoders, got "
            f"{reader.left['patch_embed.proj.weight'].dim()}. Image encoders cannot be converted"
        )
    body = vit.backbone(reader, dim, head_dim, dict(type="RotaryND", preset="vjepa2"), eps=EPS, position_dims=3)
    project = reader.pair("patch_embed.proj", "project", dim, 3, None, None, None)
    weight = project["project.weight"]
    adapter = dict(type="Tubelets", tubelet=tuple(weight.shape[2:]), class_token=False)
    parts = {"modalities.video": Part(adapter, project | dict(tokens=weight.new_zeros(0, dim))), "backbone": body}
    return Imported(parts, reader.check_unused(UNUSED), vit.assumed(head_dim, EPS))
