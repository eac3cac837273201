#!/usr/bin/env python
"""Convert weights of other libraries, or a checkpoint that is a folder, into a checkpoint file of ndformer.

    ndformer convert_checkpoint pointcept model_best.pth ptv3.pth
    Point Transformer V3, from Pointcept or from its authors
    ndformer convert_checkpoint dinov2 dinov2_vits14_pretrain.pth dinov2.pth
    ndformer convert_checkpoint lookhere lookhere.pth out.pth --fov 90
    ndformer convert_checkpoint consolidate work_dirs/x/last last.pth
    the shards of a run on several processes, as one file; last.pth of a run goes on with one process

It prints the license of the source, the parts of a model to write into a config, and all unused entries of the file. A
weight that would change the model's output and has no counterpart is an error with its name and shape.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.cli.program import new_parser, run
from ndformer.framework.engine.config.text import format_config
from ndformer.framework.engine.training.checkpoint import check_weights, load, save
from ndformer.framework.engine.training.pretrained import collect_architecture
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.registry import BACKBONES, HEADS, IMPORTERS, MODALITIES
from ndformer.framework.system import atomic

FOLDER = "consolidate"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    origins = [*sorted(IMPORTERS.all()), FOLDER]
    parser.add_argument("origin", metavar="SOURCE", choices=origins, help=", ".join(origins))
    parser.add_argument("input", metavar="IN", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("--head-dim", metavar="N", type=int, help="channels of a head: 64; for pointcept 16")
    parser.add_argument("--fov", type=int, choices=[180, 90, 45], help="field of view of lookhere (90)")
    parser.add_argument("--rope-base", metavar="N", type=int, help="of naflexvit's axial RoPE (0: none)")
    args = parser.parse_args(arguments)
    for option, value, origin in (("--fov", args.fov, "lookhere"), ("--rope-base", args.rope_base, "naflexvit")):
        if value is not None and args.origin != origin:
            raise DataError(f"{option} is an option of {origin}, got {args.origin}: leave it out")
    atomic.make_parent(args.output)
    if args.origin == FOLDER:
        save(args.output, load(args.input))
        print(f"{args.output} has the content of {args.input}")
        return
    source = IMPORTERS.get(args.origin)
    extra_options = dict(lookhere=dict(fov=args.fov or 90), naflexvit=dict(rope_base=args.rope_base or 0))
    imported = source.convert(
        load_tensors(args.input, source.inside), args.head_dim or source.head_dim, **extra_options.get(args.origin, {})
    )
    weights = {}
    dim = 0
    for name, part in imported.parts.items():
        if name == "backbone":
            module: Any = BACKBONES.create(part.config)
            dim = module.dim  # for the head
        elif name == "head":
            module = HEADS.create(part.config, dim=dim)
        else:
            module = MODALITIES.create(part.config, dim=imported.parts["backbone"].config["dim"])
        checked = check_weights(module, dict(model=part.weights), args.input)  # of all names and shapes
        weights |= {f"{name}.{key}": value for key, value in checked.items()}
    save(args.output, dict(model=weights, architecture=format_config(collect_architecture(imported))))
    print(f"license of {args.origin}: {source.license}")
    if imported.assumed:
        print(f"assumed, since the file does not contain it: {imported.assumed}")
    print(f"{args.output}: {len(weights)} tensors of {sum(w.numel() for w in weights.values()):,} numbers for")
    for name, part in imported.parts.items():
        kind, _, modality = name.partition(".")
        print(f"{kind}={format_value({modality: part.config} if modality else part.config)}")
    print(f"unused: {', '.join(imported.left) or 'nothing'}")


def format_value(value: Any) -> str:
    """Format a value as in a config: dict(type='PaPE', m=50)."""
    if isinstance(value, dict):
        return "dict(" + ", ".join(f"{key}={format_value(inner)}" for key, inner in value.items()) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_value, value)) + "]"
    return repr(value)


if __name__ == "__main__":
    run(main)
