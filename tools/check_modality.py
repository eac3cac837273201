#!/usr/bin/env python
"""Check your own dataset, pack, adapter and head: one line per promise, exit code 0 if all pass.

python tools/check_modality.py chirps.py
python tools/check_modality.py my_package.sound --data-root data/sound Sound.frame=32
python tools/check_modality.py keypoints.py --config keypoints_config.py        as a config puts them together

Tried is what the module registers. What it lacks - the pack of a known modality, say - comes from the config. After the
first line that says FAIL there are no more: what is wrong there is wrong behind it too.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.contract.parts import Parts, check_parts
from ndformer.framework.data.pack import Pack
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.programs.cli import config_path, new_parser, run
from ndformer.framework.engine.programs.naming import imported, options
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, HEADS, MODALITIES, TRANSFORMS, Registry
from ndformer.framework.registry.signature import arguments

DIM = 32


def of_config(path: Path) -> Parts:
    """As its model and its training set put them together."""
    cfg = load(path)
    model: Any = build_model(cfg).cpu()
    head: Any = None if model.in_turn else model.head
    return Parts(build_loader(cfg, "train").data, model.width, dict(model.modalities.items()), head, model.features)


def of_module(module: Any, data_root: str, given: dict[str, Any]) -> Parts:
    """What a module registers, with the `given` options, dict('CLASS.KEY'=value)."""

    def own(registry: Registry) -> list[tuple[str, Any]]:
        return [(n, kind) for n, kind in registry.all().items() if kind.__module__ == module.__name__]

    def made(registry: Registry, name: str, **context: Any) -> Any:
        more = {at.partition(".")[2]: value for at, value in given.items() if at.partition(".")[0] == name}
        return registry.create(dict(type=name, **more), **context)

    if len(own(DATASETS)) != 1:
        raise DataError(
            f"{module.__name__} registers {len(own(DATASETS))} datasets, and one gives the samples that all else is "
            "tried on: name a config with --config"
        )
    ((dataset, _),) = own(DATASETS)
    data = made(DATASETS, dataset, data_root=data_root)
    raw = data[0]
    if "inputs" not in raw:
        kinds = own(TRANSFORMS) + list(TRANSFORMS.all().items())  # its own first
        able = [
            name for name, kind in kinds if isinstance(kind, type) and issubclass(kind, Pack) and kind.input_name in raw
        ]
        data.transforms = [made(TRANSFORMS, name) for name in able[:1]]
    names = list(data[0].get("inputs", {}))
    adapters = {at: made(MODALITIES, name, dim=DIM) for at, (name, _) in zip(names, own(MODALITIES))}
    heads = [
        made(HEADS, name, dim=DIM, **({"classes": len(data.classes)} if "classes" in arguments(kind)[0] else {}))
        for name, kind in own(HEADS)
    ]
    return Parts(data, DIM, adapters, heads[0] if heads else None)


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("module", metavar="MODULE | FILE.py")
    parser.add_argument("options", metavar="CLASS.KEY=VALUE", nargs="*", help="options of its classes")
    parser.add_argument("--data-root", metavar="DIR", default=".", help="where its dataset is")
    parser.add_argument("--config", metavar="CONFIG", type=config_path, help="one that names its classes")
    given = parser.parse_args(argv)
    file = Path(given.module)
    sys.path.insert(0, str(file.parent if file.suffix == ".py" else Path.cwd()))
    module = imported(file.stem if file.suffix == ".py" else given.module)  # by its name, as workers import it
    if given.config is None:
        parts = of_module(module, given.data_root, options(given.options))
    else:
        parts = of_config(given.config)
    passed = []
    for result in check_parts(parts):
        print(result, flush=True)
        passed.append(result.passed)
    if False in passed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
