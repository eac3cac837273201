#!/usr/bin/env python
"""Print a config as it will be used: bases merged, defaults filled in, checked. The output is a valid config.

python tools/print_config.py configs/cifar10_pape.py
python tools/print_config.py configs/cifar10_pape.py --sample --cfg-options train_cfg.max_epochs=5 optimizer.lr=1e-3
python tools/print_config.py configs/cifar10_pape.py --sample --diff configs/cifar10_pape.py    what --sample changes
python tools/print_config.py --keys                                                      what a config may say
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.schema import describe_keys
from ndformer.framework.engine.programs.cli import (
    config_arguments,
    config_from,
    config_path,
    new_parser,
    run,
    weights_arguments,
)


def flat(value: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """(dotted place, value) of every leaf; an empty dict or list is one."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if not items or not value:
        yield at, repr(value)
    for key, one in items:
        yield from flat(one, f"{at}.{key}" if at else str(key))


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    before, after = dict(flat(old)), dict(flat(new))
    for place in before | after:
        if before.get(place) != after.get(place):
            yield from (f"{sign} {place} = {side[place]}" for sign, side in zip("-+", (before, after)) if place in side)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    weights_arguments(parser)
    parser.add_argument("--diff", metavar="OTHER", type=config_path, help="only what CONFIG changes against it")
    parser.add_argument("--keys", action="version", version=keys(), help="the keys that a config may have")
    given = parser.parse_args(arguments)
    cfg = config_from(given)
    if given.diff is None:
        print(cfg.pretty_text, end="")
    else:
        other = load(given.diff, trusted=given.trust_config).to_dict()
        if given.sample:
            other["sample"] = {}  # merged, not changed
        found = list(differences(other, cfg.to_dict()))
        print("\n".join([f"--- {given.diff}", f"+++ {given.config}", *found]) if found else "no difference")


def keys() -> str:
    """The table: every key, its default, and what it says."""
    rows = describe_keys()
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    return "\n".join(f"{name:{widths[0]}}  {default:{widths[1]}}  {says}" for name, default, says in rows)


if __name__ == "__main__":
    run(main)
