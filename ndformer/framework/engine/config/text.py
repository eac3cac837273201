"""Settings as text: KEY=VALUE options, encodings like PaPE(m=8), and a whole config written as Python."""

import ast
import keyword
import math
from typing import Any, TypeGuard

from ndformer.framework.errors import ConfigError

CONSTANTS = dict(true=True, false=False, none=None)
NO_NUMBERS = {f"float('{word}')": float(word) for word in ("nan", "inf", "-inf")}  # as spelled() writes them


def parse_option(text: str) -> tuple[tuple[str, ...], Any]:
    """KEY=VALUE: 'model.backbone.depth=4' is (('model', 'backbone', 'depth'), 4).

    A value is a Python literal, dict(type='X', ...) included; words may go without quotes, also inside of lists, and
    `a,b` is a list. What is no Python at all, a path for example, is a text.
    """
    key, equals, value = text.partition("=")
    keys = tuple(key.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"options are written KEY=VALUE, got '{text}': m=8, or train_cfg.max_epochs=5")
    try:
        return keys, _value(value.strip())
    except ValueError as error:
        raise ConfigError(f"{text}: {error}") from error


def parse_choices(text: str) -> tuple[str, list[str]]:
    """KEY=A,B: the key, and each of its values as a text of its own; a list in brackets is one value."""
    keys, _ = parse_option(text)
    value = text.partition("=")[2].strip()
    try:
        node = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError):
        return ".".join(keys), [value]
    if not _bare(node):
        return ".".join(keys), [value]
    return ".".join(keys), [ast.get_source_segment(value, one) or "" for one in node.elts]


def parse_encoding(text: str) -> Any:
    """PaPE, 'PaPE(m=8)' or 'Sincos, PaPE(m=8)' as the config of it."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        found = [_named(one) for one in nodes]
    except (SyntaxError, ValueError) as error:
        says = "" if isinstance(error, SyntaxError) else f" ({error})"
        raise ConfigError(f"an encoding is written NAME, 'NAME(key=value)' or several: got '{text}'{says}") from error
    return found[0] if nodes == [node] else found


def as_argument(encoding: Any) -> str:
    """The other way round: the encoding of a config as on a command line, PaPE(m=8)."""
    if encoding is None:
        return "NoPE"
    if not isinstance(encoding, dict):
        return ", ".join(map(as_argument, encoding))
    options = ", ".join(f"{key}={value!r}" for key, value in encoding.items() if key != "type")
    return encoding["type"] + (f"({options})" if options else "")


def _named(node: ast.expr) -> dict[str, Any]:
    if isinstance(node, ast.Name):
        return dict(type=node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return dict(type=node.func.id) | _keywords(node)
    raise ValueError(f"{ast.unparse(node)} names no encoding")


def _value(text: str) -> Any:
    if not text:
        return ""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        if text[0] in "[({\"'" or text.startswith("dict("):
            raise ValueError("the value does not close its brackets or quotes") from None
        return text
    if isinstance(node, (ast.Attribute, ast.BinOp, ast.Compare, ast.BoolOp)):
        return text  # a path, a file, a date: a text that happens to look like Python
    return [_literal(one) for one in node.elts] if _bare(node) else _literal(node)


def _bare(node: ast.expr) -> TypeGuard[ast.Tuple]:
    """a,b without brackets."""
    return isinstance(node, ast.Tuple) and bool(node.elts) and node.elts[0].col_offset == node.col_offset


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return CONSTANTS.get(node.id.lower(), node.id)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node)  # a dotted word, a module for example
    if isinstance(node, ast.List):
        return [_literal(one) for one in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(one) for one in node.elts)
    if isinstance(node, ast.Dict) and all(node.keys):
        return {ast.literal_eval(key): _literal(one) for key, one in zip(node.keys, node.values) if key}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        return _keywords(node)
    if isinstance(node, ast.Call) and ast.unparse(node) in NO_NUMBERS:
        return NO_NUMBERS[ast.unparse(node)]
    try:
        found = ast.literal_eval(node)
    except ValueError:
        found = None
    if type(found) in (bool, int, float, str) or isinstance(node, ast.Constant) and node.value is None:
        return found
    raise ValueError(f"{ast.unparse(node)} is no plain value: quote a text, write a component as dict(type=...)")


def _keywords(node: ast.Call) -> dict[str, Any]:
    if any(one.arg is None for one in node.keywords):
        raise ValueError("** is not understood")
    names = [one.arg for one in node.keywords]
    if len(set(names)) < len(names):
        raise ValueError(f"an argument is given twice in {ast.unparse(node)}")
    return {str(one.arg): _literal(one.value) for one in node.keywords}


def spelled(cfg: dict[str, Any]) -> str:
    """A config as Python that reads back as the same."""
    return "".join(f"{key} = {_spelled(value, len(key) + 3, 0)}\n" for key, value in cfg.items())


def unspelled(text: str) -> dict[str, Any]:
    """What spelled() wrote, without running it; a ValueError where it is anything else."""
    found = {}
    for line in ast.parse(text).body:
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
            raise ValueError(f"{ast.unparse(line):.40} gives no name a value")
        found[line.targets[0].id] = _literal(line.value)
    return found


def _spelled(value: Any, used: int, depth: int) -> str:
    """One value, on as many lines as it takes; `used` columns of the first are full."""
    opening, closing, items = _parts(value)
    if items is None:
        return opening
    lone = "," if isinstance(value, tuple) and len(items) == 1 else ""
    flat = ", ".join(name + _spelled(one, -(10**6), 0) for name, one in items)
    if not items or used + len(flat) + len(opening) + 2 <= 120:
        return f"{opening}{flat}{lone}{closing}"
    inner = " " * 4 * (depth + 1)
    lines = [f"{inner}{name}{_spelled(one, len(inner) + len(name), depth + 1)},\n" for name, one in items]
    return f"{opening}\n{''.join(lines)}{' ' * 4 * depth}{closing}"


def _parts(value: Any) -> tuple[str, str, list[tuple[str, Any]] | None]:
    if isinstance(value, dict):
        if all(isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key) for key in value):
            return "dict(", ")", [(f"{key}=", one) for key, one in value.items()]
        return "{", "}", [(f"{key!r}: ", one) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        brackets = "[]" if isinstance(value, list) else "()"
        return brackets[0], brackets[1], [("", one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')", "", None
    return repr(value), "", None
