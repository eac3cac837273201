#!/usr/bin/env python
"""Print a config as it will be used: bases merged, defaults filled in, checked. The output is a valid config.

ndformer print_config configs/cifar10_pape.py
ndformer print_config configs/cifar10_pape.py --sample --cfg-options train_cfg.max_epochs=5 optimizer.lr=1e-3
ndformer print_config configs/cifar10_pape.py --sample --diff configs/cifar10_pape.py    what --sample changes
ndformer print_config --keys                                                      all keys of configs
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ndformer.cli.program import (
    config_arguments,
    config_from,
    config_path,
    new_parser,
    run,
    weights_arguments,
)
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.schema import describe_keys


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted key, value) of every leaf, including empty dicts and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if not items or not value:
        yield path, repr(value)
    for key, inner in items:
        yield from flat(inner, f"{path}.{key}" if path else str(key))


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before, after = dict(flat(old)), dict(flat(new))
    for place in before | after:
        if before.get(place) != after.get(place):
            yield from (f"{sign} {place} = {side[place]}" for sign, side in zip("-+", (before, after)) if place in side)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    weights_arguments(parser)
    parser.add_argument("--diff", metavar="OTHER", type=config_path, help="print only CONFIG's differences from it")
    parser.add_argument("--keys", action="version", version=keys(), help="print all keys of configs")
    args = parser.parse_args(arguments)
    cfg = config_from(args)
    if args.diff is None:
        print(cfg.pretty_text, end="")
    else:
        other = load(args.diff, trusted=args.trust_config).to_dict()
        if args.sample:
            other["sample"] = {}  # merged, not changed
        found = list(differences(other, cfg.to_dict()))
        print("\n".join([f"--- {args.diff}", f"+++ {args.config}", *found]) if found else "no difference")


def keys() -> str:
    """Return the table of keys, with defaults and descriptions."""
    rows = describe_keys()
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{name:{widths[0]}}  {default:{widths[1]}}  {description}" for name, default, description in rows)


if __name__ == "__main__":
    run(main)
