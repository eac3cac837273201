"""Inspection of signatures: arguments of a class or function, their annotations in words and type checks."""

import collections.abc
import functools
import inspect
import math
import types
import typing
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

from torch import Tensor, nn

from ndformer.framework.errors import alternatives

LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
DICTS = (dict, collections.abc.Mapping)
WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Path: "a string that is not empty",
}


class Argument(NamedTuple):
    """The type annotation and default of an argument."""

    hint: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@functools.cache
def arguments(kind: Any) -> tuple[dict[str, Argument], bool]:
    """Return the arguments by name, and whether further keyword arguments are accepted.

    **kwargs of a constructor are assumed to be passed to the base class; if no base class names its arguments, any are
    accepted.
    """
    if not inspect.isclass(kind):
        return _function_arguments(kind, skip=0)
    found: dict[str, Argument] = {}
    extra = False
    for base in kind.__mro__:
        if "__init__" in vars(base) and base not in (object, nn.Module):
            named, extra = _function_arguments(vars(base)["__init__"], skip=1)
            found |= named | found  # annotations and defaults of subclasses take precedence
            if not extra:
                break
    return found, extra


def _function_arguments(function: Any, skip: int) -> tuple[dict[str, Argument], bool]:
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # an annotation that only a type checker can read
        hints = {}
    found = {
        p.name: Argument(hints.get(p.name, Any), p.default)
        for p in parameters
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return found, any(p.kind is p.VAR_KEYWORD for p in parameters)


def union(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the hint itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a plain value matches an annotation; annotations that cannot be checked match."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Annotated:
        return fits(value, hint.__origin__) and all(value in range for range in hint.__metadata__)
    if len(union(hint)) > 1:
        return any(fits(value, member) for member in args)
    if hint is None or hint is types.NoneType:
        return value is None
    if origin is Literal:
        return any(value == literal and type(value) is type(literal) for literal in args)
    if hint in (bool, str):
        return isinstance(value, hint)
    if hint is Path:
        return isinstance(value, (str, Path)) and value != ""
    if hint in (int, float):
        number = isinstance(value, int if hint is int else (int, float)) and not isinstance(value, bool)
        return number and (isinstance(value, int) or math.isfinite(value))
    if hint is Tensor:
        return False
    if is_dataclass(hint):
        return isinstance(value, dict)
    if origin in LISTS:
        if not isinstance(value, (list, tuple)):
            return False
        if origin is tuple and args and args[-1] is not Ellipsis:
            return len(value) == len(args) and all(map(fits, value, args))
        return not args or all(fits(item, args[0]) for item in value)
    if origin in DICTS:
        return isinstance(value, dict) and (not args or all(fits(item, args[1]) for item in value.values()))
    return True


def choices(hint: Any) -> list[str]:
    """Return the alternatives of an annotation in words: each member of a union, each value of a Literal."""
    if typing.get_origin(hint) is Literal:
        return list(map(repr, typing.get_args(hint)))
    if len(union(hint)) > 1:
        return [word for member in typing.get_args(hint) if member is not Tensor for word in choices(member)]
    return [in_words(hint)]


def in_words(hint: Any) -> str:
    """Describe an annotation in words: int | None is 'a whole number or None'."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Annotated:
        return " ".join([in_words(hint.__origin__), *map(str, hint.__metadata__)])
    if len(union(hint)) > 1 or origin is Literal:
        return alternatives(dict.fromkeys(choices(hint)))
    if hint is None or hint is types.NoneType:
        return "None"
    if is_dataclass(hint):
        return f"dict({', '.join(f'{name}=' for name in arguments(hint)[0])})"
    if origin is tuple and args and args[-1] is not Ellipsis:
        return f"a list of {len(args)} ({', '.join(map(in_words, args))})"
    if origin in LISTS:
        return f"a list, each item {in_words(args[0])}" if args and args[0] is not Any else "a list"
    if origin in DICTS:
        return "a dict"
    return WORDS.get(hint) or getattr(hint, "__name__", str(hint))
