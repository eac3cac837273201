"""What a class or function takes: its arguments, their annotations in words, and whether a plain value fits one."""

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
    hint: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@functools.cache
def arguments(kind: Any) -> tuple[dict[str, Argument], bool]:
    """The arguments by name, and whether any others are taken too.

    **kwargs of a constructor are taken to go to the next one up; where none of ours is left there, anything goes.
    """
    if not inspect.isclass(kind):
        return _function_arguments(kind, skip=0)
    found: dict[str, Argument] = {}
    more = False
    for base in kind.__mro__:
        if "__init__" in vars(base) and base not in (object, nn.Module):
            own, more = _function_arguments(vars(base)["__init__"], skip=1)
            found |= own | found  # the outermost comes first, and says the type and the default
            if not more:
                break
    return found, more


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
    """The members of a union, or the hint alone."""
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def fits(value: Any, hint: Any) -> bool:
    """Whether an annotation allows a plain value. Where we cannot tell, it does."""
    origin, inside = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Annotated:
        return fits(value, hint.__origin__) and all(value in range for range in hint.__metadata__)
    if len(union(hint)) > 1:
        return any(fits(value, one) for one in inside)
    if hint is None or hint is types.NoneType:
        return value is None
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inside)
    if hint in (bool, str):
        return isinstance(value, hint)
    if hint is Path:
        return isinstance(value, str) and value != ""
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
        if origin is tuple and inside and inside[-1] is not Ellipsis:
            return len(value) == len(inside) and all(map(fits, value, inside))
        return not inside or all(fits(one, inside[0]) for one in value)
    if origin in DICTS:
        return isinstance(value, dict) and (not inside or all(fits(one, inside[1]) for one in value.values()))
    return True


def in_words(hint: Any) -> str:
    """An annotation for people: int | None is 'a whole number or None'."""
    origin, inside = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Annotated:
        return " ".join([in_words(hint.__origin__), *map(str, hint.__metadata__)])
    if len(union(hint)) > 1:
        return " or ".join(dict.fromkeys(in_words(one) for one in inside if one is not Tensor))
    if hint is None or hint is types.NoneType:
        return "None"
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if is_dataclass(hint):
        return f"dict({', '.join(f'{name}=' for name in arguments(hint)[0])})"
    if origin is tuple and inside and inside[-1] is not Ellipsis:
        return f"a list of {len(inside)} ({', '.join(map(in_words, inside))})"
    if origin in LISTS:
        return f"a list, each item {in_words(inside[0])}" if inside and inside[0] is not Any else "a list"
    if origin in DICTS:
        return "a dict"
    return WORDS.get(hint) or getattr(hint, "__name__", str(hint))
