#!/usr/bin/env python
"""Check that your dataset, pack, adapter and head meet the contract: a line per requirement, exit code 0 if none fails.

    ndformer check_modality chirps.py
    ndformer check_modality my_package.sound --data-root data/sound Sound.frame=32
    ndformer check_modality keypoints.py --config keypoints_config.py        as combined in a config

It checks the classes that the module registers; with --config also those that the module lacks, such as the pack of a
shipped modality. It stops at the first FAIL, since later requirements depend on earlier ones.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.cli.naming import imported, options
from ndformer.cli.program import config_path, new_parser, run
from ndformer.contract.parts import Parts, check_parts
from ndformer.framework.data.pack import Pack
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, HEADS, MODALITIES, TRANSFORMS, Registry
from ndformer.framework.registry.signature import arguments

DIM = 32


def parts_from_config(path: Path) -> Parts:
    """Build the parts from a config's model and training set."""
    cfg = load(path)
    model: Any = build_model(cfg).cpu()
    head: Any = None if model.in_turn else model.head
    return Parts(build_loader(cfg, "train").data, model.width, dict(model.modalities.items()), head, model.features)


def parts_from_module(module: Any, data_root: str, class_options: dict[str, Any]) -> Parts:
    """Build the parts that a module registers, with options as dict('CLASS.KEY'=value)."""

    def registered(registry: Registry) -> list[tuple[str, Any]]:
        return [(n, kind) for n, kind in registry.all().items() if kind.__module__ == module.__name__]

    def create(registry: Registry, name: str, **context: Any) -> Any:
        own_options = {key.partition(".")[2]: v for key, v in class_options.items() if key.partition(".")[0] == name}
        return registry.create(dict(type=name, **own_options), **context)

    if len(registered(DATASETS)) != 1:
        raise DataError(
            f"{module.__name__}: expected one registered dataset, got {len(registered(DATASETS))}. Its samples are "
            "used for all checks: give a config with --config"
        )
    ((dataset, _),) = registered(DATASETS)
    data = create(DATASETS, dataset, data_root=data_root)
    raw = data[0]
    if "inputs" not in raw:
        kinds = registered(TRANSFORMS) + list(TRANSFORMS.all().items())  # the module's first
        packs = [
            name for name, kind in kinds if isinstance(kind, type) and issubclass(kind, Pack) and kind.input_name in raw
        ]
        data.transforms = [create(TRANSFORMS, name) for name in packs[:1]]
    names = list(data[0].get("inputs", {}))
    adapters = {modality: create(MODALITIES, n, dim=DIM) for modality, (n, _) in zip(names, registered(MODALITIES))}
    heads = [
        create(HEADS, name, dim=DIM, **({"classes": len(data.classes)} if "classes" in arguments(kind)[0] else {}))
        for name, kind in registered(HEADS)
    ]
    return Parts(data, DIM, adapters, heads[0] if heads else None)


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("module", metavar="MODULE | FILE.py")
    parser.add_argument("options", metavar="CLASS.KEY=VALUE", nargs="*", help="options of the module's classes")
    parser.add_argument("--data-root", metavar="DIR", default=".", help="folder of the data")
    parser.add_argument("--config", metavar="CONFIG", type=config_path, help="a config that uses the module's classes")
    args = parser.parse_args(argv)
    file = Path(args.module)
    sys.path.insert(0, str(file.parent if file.suffix == ".py" else Path.cwd()))
    module = imported(file.stem if file.suffix == ".py" else args.module)  # by name, as worker processes import it
    if args.config is None:
        parts = parts_from_module(module, args.data_root, options(args.options))
    else:
        parts = parts_from_config(args.config)
    passed = []
    for result in check_parts(parts):
        print(result, flush=True)
        passed.append(result.passed)
    if False in passed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
