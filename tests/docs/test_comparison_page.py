"""docs/results/comparison.md: its tables (written by `python -m tests.docs.test_comparison_page`) and its commands."""

import argparse
import json
import re
import shlex
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.attention import build_encoding
from ndformer.framework.bias.base import Bias
from ndformer.framework.encoding.composed import PositionEncoding
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.kernels.choose import BACKENDS
from ndformer.framework.kernels.sdpa import is_separable
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from ndformer.lab import markdown
from ndformer.lab.compare import plan
from ndformer.lab.friedman import critical_difference
from ndformer.lab.grid import points
from ndformer.lab.rank import join
from ndformer.lab.rank_table import Table, text
from tests.docs import made
from tests.docs.larger import at_size
from tests.docs.small_sets import LARGER
from tests.framework.helpers import CAMERAS
from tools import compare, rank

PAGE = "docs/results/comparison.md"
DOCS = made.ROOT / "docs"
SETS = ["mnist_small", "sign_digits", "ldraw10", "lpc_actions", "nmnist_small"]
DIM, HEADS, DEPTH, SIDE = 192, 3, 12, 14  # ViT-Tiny on 224 pixels
ENCODINGS.get("NoPE")  # finds them all
SECTIONS = made.encodings()
NAMES = [*SECTIONS, *sorted(set(ENCODINGS.module_dict) - set(SECTIONS))]


class Built:
    """An encoding in the first of ViT-Tiny's twelve blocks, and its effects there."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self.kind = ENCODINGS.get(name)
        self.encoding: PositionEncoding = build_encoding(
            dict(type=name), dim=DIM, heads=HEADS, position_dims=2, depth=DEPTH
        )
        layers = [self.encoding.layer(i, DEPTH) for i in range(DEPTH)]
        weights = {weight for module in [self.encoding, *layers] for weight in module.parameters()}
        self.parameters = sum(weight.numel() for weight in weights)
        with torch.no_grad():
            for weight in weights:
                if not weight.any():  # what starts at 0 would seem to do nothing
                    weight.normal_()
            self.acts(layers[0])

    def acts(self, layer: Any) -> None:
        axis = torch.arange(float(SIDE))
        objects = torch.ones(1, SIDE**2, dtype=torch.long)
        where = Where(torch.cartesian_prod(axis, axis)[None], grid=(SIDE, SIDE), objects=objects)
        x = torch.randn(1, SIDE**2, DIM)
        state = self.encoding.prepare(where)
        embedded = self.encoding.embed(x, state)
        inputs = layer.input(embedded, state)
        same = inputs.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (1, H, N, h)
        q, k, self.bias = layer(same, same, inputs, state)
        done = {
            "added": not torch.equal(embedded, x),
            "added in every block": not torch.equal(inputs, embedded),
            "added for q and k": not torch.equal(layer.qk_input(inputs, state), inputs),
            "between blocks": not torch.equal(self.encoding.block_update(x, state, 1), x),
            "q and k": not (torch.equal(q, same) and torch.equal(k, same)),
            "values and output": layer.transforms_values and not self.passes(layer, same, inputs, state),
            "bias": self.bias is not None,
        }
        self.how = ", ".join(how for how, does in done.items() if does)
        self.flex = BACKENDS["flex"].serves(q, k, same, where, self.bias)

    @staticmethod
    def passes(layer: Any, v: Tensor, x: Tensor, state: Any) -> bool:
        """Return whether values and attention's output stay as they are."""
        return torch.equal(layer.values(v, x, state), v) and torch.equal(layer.output(v, x, state), v)

    @property
    def dims(self) -> str:
        least, most = self.kind.min_dims, self.kind.max_dims
        return f"{least} to {most}" if most else "any" if least == 1 else f"{least} or more"

    @property
    def positions(self) -> str:
        whole = "any" if self.encoding.float_positions else "whole steps"
        kinds = ["a grid" if self.encoding.needs_grid else whole]
        kinds += ["circles"] * self.encoding.circular_axes
        kinds += ["cameras"] * (self.encoding.uses_cameras or self.kind.__name__ in CAMERAS)
        return ", ".join(kinds)

    @property
    def backends(self) -> str:
        bias: Bias | None = self.bias
        return ("sdpa" if bias is None or is_separable(bias) else "sdpa, all pairs") + (", flex" if self.flex else "")


def larger() -> dict[str, str]:
    """Return the accuracy on digits of twice the size, with continued and with interpolated positions."""
    ways = [at_size(LARGER["digits"], 56, interpolated) for interpolated in (False, True)]
    mean = lambda values: f"{100 * statistics.fmean(values.values()):.1f}"
    texts = {name: " / ".join(mean(way[name]) for way in ways) for name in ways[0]}
    return {name.split("(")[0]: text for name, text in texts.items()} | texts


def benchmark(file: str, title: str, figure: Callable[[dict[str, Any]], str]) -> dict[str, str]:
    results = json.loads((DOCS / "benchmarks" / file).read_text())["results"]
    (found,) = [one["rows"] for one in results if one["title"] == title]
    return by_kind(found, figure)


def by_kind(rows: dict[str, dict[str, Any]], figure: Callable[[dict[str, Any]], str]) -> dict[str, str]:
    """Return figures by row, and by class for rows with options such as RotaryND(directions='simplex')."""
    figures = {name: figure(row) for name, row in rows.items()}
    return {name.split("(")[0]: found for name, found in reversed(figures.items())} | figures


def on_points() -> dict[str, str]:
    rows = json.loads((DOCS / "benchmarks" / "points_cpu_xcpe.json").read_text())["rows"]
    return by_kind({"NoPE": rows["none"], **rows}, lambda row: f"{row['ratio']:.2f}")


def chooser() -> str:
    """Return a table with a row per encoding, in the order of docs/reference/encodings.md, without empty columns."""
    built = {name: Built(name) for name in NAMES}
    flag = lambda name: {n: "✓" if getattr(b.encoding, name) else "" for n, b in built.items()}
    ratio = lambda row: f"{row['ratio']:.2f}"
    columns = {
        "encoding": {name: f"[{name}](../{SECTIONS[name][0]})" for name in NAMES},
        "acts as": {name: one.how or "nothing" for name, one in built.items()},
        "P": {name: one.dims for name, one in built.items()},
        "positions": {name: one.positions for name, one in built.items()},
        "relative": flag("translation_invariant"),
        "turns": flag("rotation_invariant"),
        "by content": flag("content_dependent"),
        "backends": {name: one.backends for name, one in built.items()},
        "parameters": {name: f"{one.parameters:,}" for name, one in built.items()},
        "digits x 2": larger(),
        "time, 197": benchmark("block_cpu.json", "ViT-B block, 197 tokens, training step", ratio),
        "time, 1025": benchmark("block_cpu.json", "ViT-B block, 1025 tokens, training step", ratio),
        "time, points": on_points(),
        "memory, 16385": benchmark(
            "memory_cpu.json",
            "peak memory, 16385 tokens, forward and backward, MiB",
            lambda row: f"{row['tables']:.2f}",
        ),
    }
    columns = {head: cells for head, cells in columns.items() if any(cells.get(name) for name in NAMES)}
    rows = [[cells.get(name, "") for cells in columns.values()] for name in NAMES]
    return f"\n{markdown.table(list(columns), rows, words=8)}\n\n"


def measured() -> str:
    """Return the tables of docs/results/data/comparison.json, which tools/rank.py writes."""
    file = DOCS / "results" / "data" / "comparison.json"
    table = Table(join([file]), json.loads(file.read_text())["baseline"])
    picture = "![Average ranks; bars join ranks without a significant difference](data/comparison.png)\n\n"
    return f"\n{text(table)}\n{picture if table.ranking else ''}"


PARTS = dict(chooser=chooser, measured=measured)


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_what_the_classes_and_the_results_say(name: str) -> None:
    again = "`python -m tests.docs.test_comparison_page` writes the page's parts anew"
    assert made.part(PAGE, name) == PARTS[name](), again


def test_the_text_beside_the_figures_is_theirs() -> None:
    assert (DOCS / "results" / "data" / "comparison.md").read_text() == measured().split("![")[0].strip() + "\n"


def block(start: str) -> list[str]:
    """Return the lines of the indented block that begins with `start`."""
    page = (made.ROOT / PAGE).read_text()
    (found,) = re.findall(rf"^    {re.escape(start)}.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in found.splitlines()]


def commands(start: str) -> tuple[list[argparse.Namespace], dict[str, list[str]]]:
    """Return the arguments of each tools/compare.py command with its lists of encodings expanded, and the lists."""
    lists, found = {}, []
    for line in block(start):
        if line.startswith("ndformer compare "):
            words = [lists.get(word.strip("${[@]}"), [word]) for word in shlex.split(line)[2:]]
            found.append(compare.parse([word for some in words for word in some]))
        else:
            name, words = line.removesuffix(")").split("=(", 1)
            lists[name] = shlex.split(words)
    return found, lists


def test_heads_are_tried_with_three_learning_rates_on_five_sets(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(made.ROOT)
    given, _ = commands("HEADS=(")
    for one in given:
        assert (one.seeds, len(points(one.grid)), len(one.encodings)) == ([0, 1, 2], 3, 6)
        own = load(one.config).optimizer.lr
        assert [float(point["optimizer.lr"]) / own for point in points(one.grid)] == [0.5, 1, 2]
        plan(one.config, one.encodings[:1], [0], tmp_path, points=points(one.grid)[:1])
    assert [one.config.stem for one in given] == SETS


def test_families_can_be_built_for_all_sets(monkeypatch) -> None:
    monkeypatch.chdir(made.ROOT)
    (first,), families = commands("ADDED=(")
    assert (first.encodings, points(first.grid)) == (families["ADDED"], [{"optimizer.lr": "0.0015"}])
    for one in commands("HEADS=(")[0]:
        dims = load(one.config).model.backbone.position_dims
        for encoding in [*one.encodings, *(name for names in families.values() for name in names)]:
            parsed = parse_encoding(encoding)
            options = ENCODINGS.get(parsed["type"]).from_data(dict(parsed), None)
            assert not build_encoding(options, dim=96, heads=4, position_dims=dims, depth=4).needs_grid


def test_rates_of_families_are_those_that_validated_best() -> None:
    """The families are additive, rotary and parabolic encodings."""
    runs = json.loads((DOCS / "results" / "data" / "start.json").read_text())
    page = (made.ROOT / PAGE).read_text()
    for name in SETS:
        (cells,) = re.findall(rf"^\| {name} +\|(.*)\|$", page.split("the rates are")[1], re.MULTILINE)
        expected = []
        for family in (["Sincos"], ["AxialRoPE", "RoPEMixed"], ["PaPE"]):
            tried = [runs[name][one] for one in family]
            means = {rate: sum(one[rate]["0"]["val"] for one in tried) for rate in sorted(tried[0], key=float)}
            expected.append(max(means, key=means.__getitem__))
        assert [cell.strip() for cell in cells.split("|")[:3]] == expected, name


def test_the_plans_numbers_are_those_of_its_commands() -> None:
    page = (made.ROOT / PAGE).read_text()
    heads, (_, families) = commands("HEADS=(")[0], commands("ADDED=(")
    others = sum(map(len, families.values()))
    count = len(heads[0].encodings) + others
    assert count >= 18
    assert f"\n{count} encodings on five small" in page
    runs = sum(len(one.encodings) * (len(points(one.grid)) + len(one.seeds) - 1) + 3 * others for one in heads)
    assert f"{runs} runs in all" in page
    assert f"{runs * 1.4 / 60:.0f} to {runs * 3.0 / 60:.0f} hours" in page
    apart = f"differ by {critical_difference(count, len(heads)):.1f} or more, of a possible {count - 1}"
    assert f"{count} encodings differ significantly only if their average ranks {apart}" in page.replace("\n", " ")


def test_ranks_are_joined_by_a_command_that_is_understood(monkeypatch) -> None:
    monkeypatch.chdir(made.ROOT)
    _, tool, *words = shlex.split(block("ndformer rank work_dirs")[0])
    assert tool == "rank"
    assert rank.parse(words).out == Path("docs/results")


if __name__ == "__main__":
    for part, write in PARTS.items():
        made.rewrite(PAGE, part, write())
