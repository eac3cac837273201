"""Records and samples as JSON: paths relative to the data folder, numbers, texts, arrays, tuples, dataclasses.

Reading builds plain values, arrays without objects, and dataclasses or named tuples of the package of the dataset (and
its `packed_types`), so that an index from an unknown source cannot run code.
"""

import base64
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError

PLAIN = (bool, int, float, str, type(None))
Store = Callable[[Any], str]  # stores an array or image, and returns the name under which `load` returns it
Load = Callable[[str], Any]


class Values:
    """The encoding of values below the data folder `root`, for a dataset class."""

    def __init__(self, root: Path, kind: Any) -> None:
        self.root, self.prefix = root, f"{root}{os.sep}"
        self.decoder = json.JSONDecoder(object_hook=self._value)
        self.kind, self.package, self.types = kind, kind.__module__.partition(".")[0], tuple(kind.packed_types)

    def encode(self, value: Any, store: Store | None = None) -> str:
        try:
            return json.dumps(self._plain(value, store), separators=(",", ":"))
        except TypeError as error:
            raise DataError(
                f"{self.kind.__name__}: expected paths, numbers, texts, arrays and dataclasses in its records, got "
                f"{error}. Make it a dataclass, or add its class to packed_types"
            ) from None

    def _plain(self, value: Any, store: Store | None) -> Any:
        if isinstance(value, str) and value.startswith(self.prefix):
            return {"$below": value[len(self.prefix) :]}
        if type(value) in PLAIN:
            return value
        if isinstance(value, Path):
            return {"$path": self.name(value)}
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"$number": [value.dtype.str, value.item()]}
        if store is not None and (isinstance(value, np.ndarray) or _is_image(value)):
            return {"$stored": store(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufcSU":
            content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return {"$array": [value.dtype.str, value.shape, content]}
        if isinstance(value, dict):
            return {"$dict": [[self._plain(part, store) for part in item] for item in value.items()]}
        if type(value) is list:
            return [self._plain(part, store) for part in value]
        if type(value) is tuple:
            return {"$tuple": [self._plain(part, store) for part in value]}
        names = _fields(type(value), self.types)
        if names is None:
            raise TypeError(f"a {type(value).__name__}")
        parts = [[name, self._plain(part, store)] for name, part in names(value).items()]
        return {"$object": [f"{type(value).__module__}:{type(value).__qualname__}", parts]}

    def name(self, path: Path) -> str:
        """Return a path relative to the data folder."""
        if path == self.root:
            return "."
        if not str(path).startswith(self.prefix):
            raise DataError(f"{path} is outside of {self.root}: shards have files below the data folder. Copy it there")
        return str(path)[len(self.prefix) :]

    def decode(self, text: bytes | str, load: Load | None = None) -> Any:
        decoder = self.decoder
        if load is not None:
            decoder = json.JSONDecoder(object_hook=functools.partial(self._value, load=load))
        try:
            text = text if isinstance(text, str) else text.decode()
            value, end = decoder.raw_decode(text)
            if end != len(text):
                raise ValueError(f"it has {len(text) - end} letters too many")
            return value
        except (ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
            raise DataError(
                f"{self.root}: a record of the index is damaged ({foreign.single_line(error):.200}). "
                "Copy the shards again, or pack them again with ndformer pack_shards"
            ) from None

    def _value(self, content: dict[str, Any], load: Load | None = None) -> Any:
        part: Any
        mark, part = next(iter(content.items()), ("", None))
        if not mark.startswith("$"):
            return content
        if mark == "$tuple":
            return tuple(part)
        if mark == "$path":
            return foreign.inside(self.root, part)
        if mark == "$below":
            return self.prefix + part
        if mark == "$dict":
            return dict(part)
        if mark == "$array":
            dtype, shape, encoded = part
            return np.frombuffer(base64.b64decode(encoded), _numeric(dtype)).reshape(shape).copy()
        if mark == "$number":
            return _numeric(part[0]).type(part[1])
        if mark == "$stored" and load is not None:
            return load(part)
        if mark == "$object":
            return self._object(*part)
        raise ValueError(f"'{mark}' is not known")

    def _object(self, name: str, parts: list[Any]) -> Any:
        module, _, qualified = name.partition(":")
        kind: Any = vars(sys.modules[module]).get(qualified) if module in sys.modules else None
        if (
            not isinstance(kind, type)
            or _fields(kind, self.types) is None
            or module.partition(".")[0] not in ("ndformer", self.package)
        ):
            raise ValueError(f"'{name:.80}' is no dataclass of a dataset")
        values = dict(parts)
        if kind in self.types:
            found = object.__new__(kind)
            found.__dict__.update(values)
            return found
        return kind(**values)


def _fields(kind: Any, types: Collection[type]) -> Callable[[Any], dict[str, Any]] | None:
    """Return a function from an object of this class to its values, or None if the class cannot be packed."""
    if kind in types:
        return vars
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
        return lambda value: {name: getattr(value, name) for name in names}
    return (lambda value: value._asdict()) if issubclass(kind, tuple) and "_fields" in vars(kind) else None


def _is_image(value: Any) -> bool:
    from PIL import Image

    return isinstance(value, Image.Image)


def _numeric(dtype: str) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.kind not in "biufcSU":
        raise ValueError(f"'{dtype}' is no type of numbers")
    return found
