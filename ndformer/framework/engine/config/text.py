"""Settings as text: KEY=VALUE options, encodings such as PaPE(m=8), and configs as Python source."""

import ast
import io
import keyword
import math
import re
import tokenize
from typing import Any, TypeGuard

from ndformer.framework.errors import ConfigError

CONSTANTS = dict(true=True, false=False, none=None)
NONFINITE = {f"float('{word}')": float(word) for word in ("nan", "inf", "-inf")}  # as format_config() writes them


def parse_option(text: str) -> tuple[tuple[str, ...], Any]:
    """Parse KEY=VALUE: 'model.backbone.depth=4' gives (('model', 'backbone', 'depth'), 4).

    A value is a Python literal or dict(type='X', ...). Words need no quotes, also in lists, and `a,b` is a list. Text
    that is not Python, such as a path, is a string.
    """
    key, equals, value = text.partition("=")
    keys = tuple(key.strip().split("."))
    if not equals or not all(keys):
        raise ConfigError(f"options: expected KEY=VALUE, such as m=8 or train_cfg.max_epochs=5, got '{text}'")
    try:
        return keys, _value(value.strip())
    except ValueError as error:
        raise ConfigError(f"{text}: {error}") from error


def parse_choices(text: str) -> tuple[str, list[str]]:
    """Parse KEY=A,B into the key and the text of each value; a list in brackets is one value."""
    keys, _ = parse_option(text)
    value = text.partition("=")[2].strip()
    try:
        node = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError):
        return ".".join(keys), [value]
    if not _bare(node) or _has_comment(value):
        return ".".join(keys), [value]
    return ".".join(keys), [ast.get_source_segment(value, item) or "" for item in node.elts]


def parse_encoding(text: str) -> Any:
    """Parse PaPE, 'PaPE(m=8)' or 'Sincos, PaPE(m=8)' into a config."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
        encodings = [_parse_call(item) for item in nodes]
    except (SyntaxError, ValueError) as error:
        reason = "" if isinstance(error, SyntaxError) else f" ({error})"
        if file := re.search(r"([\w./-]*?)(\w+)\.py\b", text):
            imported = f"--cfg-options custom_imports.imports={file[2]}"
            reason += f". Give the class alone, with {imported} and PYTHONPATH={file[1] or '.'} before the command"
        raise ConfigError(
            f"encoding: expected NAME, 'NAME(key=value)' or several of them, got '{text}'{reason}"
        ) from error
    return encodings[0] if nodes == [node] else encodings


def as_argument(encoding: Any) -> str:
    """Format the encoding of a config as a command-line argument: PaPE(m=8)."""
    if encoding is None:
        return "NoPE"
    if not isinstance(encoding, dict):
        return ", ".join(map(as_argument, encoding))
    options = ", ".join(f"{key}={value!r}" for key, value in encoding.items() if key != "type")
    return encoding["type"] + (f"({options})" if options else "")


def _parse_call(node: ast.expr) -> dict[str, Any]:
    if isinstance(node, ast.Name):
        return dict(type=node.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return dict(type=node.func.id) | _keywords(node)
    raise ValueError(f"{ast.unparse(node)} is not the name of an encoding")


def _has_comment(text: str) -> bool:
    if "#" not in text:
        return False
    return any(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def _value(text: str) -> Any:
    if not text:
        return ""
    try:
        node = ast.parse(text, mode="eval").body
        if _has_comment(text):
            raise SyntaxError  # Python would drop the rest of a name such as run#2
    except (SyntaxError, ValueError):
        if text[0] in "[({\"'" or text.startswith("dict("):
            raise ValueError("the value does not close its brackets or quotes") from None
        return text
    if isinstance(node, (ast.Attribute, ast.BinOp, ast.Compare, ast.BoolOp)):
        return text  # a path, a file name or a date, which is also valid Python
    return [_literal(item) for item in node.elts] if _bare(node) else _literal(node)


def _bare(node: ast.expr) -> TypeGuard[ast.Tuple]:
    """Whether the node is `a,b` without brackets."""
    return isinstance(node, ast.Tuple) and bool(node.elts) and node.elts[0].col_offset == node.col_offset


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return CONSTANTS.get(node.id.lower(), node.id)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node)  # a dotted name, such as a module's
    if isinstance(node, ast.List):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict) and all(node.keys):
        return {ast.literal_eval(key): _literal(item) for key, item in zip(node.keys, node.values) if key}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        return _keywords(node)
    if isinstance(node, ast.Call) and ast.unparse(node) in NONFINITE:
        return NONFINITE[ast.unparse(node)]
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if type(value) in (bool, int, float, str) or isinstance(node, ast.Constant) and node.value is None:
        return value
    raise ValueError(f"{ast.unparse(node)} is not a plain value: quote a text, write a component as dict(type=...)")


def _keywords(node: ast.Call) -> dict[str, Any]:
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("** is not supported")
    names = [keyword.arg for keyword in node.keywords]
    if len(set(names)) < len(names):
        raise ValueError(f"an argument is given twice in {ast.unparse(node)}")
    return {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}


def format_config(cfg: dict[str, Any]) -> str:
    """Format a config as Python source that parse_config() reads back."""
    return "".join(f"{key} = {_format_value(value, len(key) + 3, 0)}\n" for key, value in cfg.items())


def parse_config(text: str) -> dict[str, Any]:
    """Parse the text of format_config() without executing it; a ValueError for other text."""
    cfg = {}
    for line in ast.parse(text).body:
        if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
            raise ValueError(f"{ast.unparse(line):.40} is not an assignment to a name")
        cfg[line.targets[0].id] = _literal(line.value)
    return cfg


def _format_value(value: Any, used: int, depth: int) -> str:
    """Format a value on one or more lines; `used` columns of the first line are taken."""
    opening, closing, items = _parts(value)
    if items is None:
        return opening
    comma = "," if isinstance(value, tuple) and len(items) == 1 else ""
    flat = ", ".join(name + _format_value(item, -(10**6), 0) for name, item in items)
    if not items or used + len(flat) + len(opening) + 2 <= 120:
        return f"{opening}{flat}{comma}{closing}"
    inner = " " * 4 * (depth + 1)
    lines = [f"{inner}{name}{_format_value(item, len(inner) + len(name), depth + 1)},\n" for name, item in items]
    return f"{opening}\n{''.join(lines)}{' ' * 4 * depth}{closing}"


def _is_keyword(key: str) -> bool:
    """Whether dict(key=...) gives this key; of names outside of ASCII, Python changes some ('º' becomes 'o')."""
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key)


def _parts(value: Any) -> tuple[str, str, list[tuple[str, Any]] | None]:
    if isinstance(value, dict):
        if all(isinstance(key, str) and _is_keyword(key) for key in value):
            return "dict(", ")", [(f"{key}=", item) for key, item in value.items()]
        return "{", "}", [(f"{key!r}: ", item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        brackets = "[]" if isinstance(value, list) else "()"
        return brackets[0], brackets[1], [("", item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')", "", None
    return repr(value), "", None
