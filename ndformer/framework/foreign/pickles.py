"""A pickle machine that knows plain values alone: numbers, texts, lists, dicts, tuples and numpy's arrays of numbers.

Python's own goes wherever a pickle leads, numpy into memory of the pickle's choosing. Here a pickle calls nothing: its
opcodes are read by pickletools, and what stands for an array is made of its bytes by us. A list, dict or tuple
stands in one place only, so that nothing is in itself and nothing small becomes large.
"""

import mmap
import pickletools
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework.foreign.files import check_size, opened

OPCODES = 2**20  # a batch of 50,000 images has some 300,000
VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
EMPTY: dict[str, type] = dict(EMPTY_LIST=list, EMPTY_DICT=dict, EMPTY_TUPLE=tuple)
CONSTANTS = dict(NONE=None, NEWTRUE=True, NEWFALSE=False)
TUPLES = dict(TUPLE1=1, TUPLE2=2, TUPLE3=3)
MARK = object()


class Name(NamedTuple):
    module: str
    name: str


class Made:
    """An array or a dtype, whose value comes only with BUILD."""

    value: Any = None


def plain_pickle(path: Path) -> Any:
    """The one value of a pickle; a ValueError, or another of Python's errors, where it asks for more or is damaged."""
    return Machine(path).run()


class Machine:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0  # bytes made of texts, each of which a pickle may name a million times

    def run(self) -> Any:
        with opened(self.path) as file:
            check_size(self.path, 3 * self.path.stat().st_size)  # bytes, the text they may be written as, and an array
            mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # claims allocate nothing
            steps = pickletools.genops(mapped)
            for number, (opcode, given, _) in enumerate(steps):
                if number > OPCODES:
                    raise ValueError(f"it has more than {OPCODES} steps")
                if opcode.name == "STOP":
                    return self.pop()
                self.step(opcode.name, given)
        raise ValueError("it does not end")

    def step(self, name: str, given: Any) -> None:
        stack = self.stack
        if name in VALUES:
            stack.append(given)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in EMPTY:
            stack.append(EMPTY[name]())
        elif name in TUPLES:
            stack.append(tuple(reversed([self.pop() for _ in range(TUPLES[name])])))
        elif name == "MARK":
            stack.append(MARK)
        elif name in ("LIST", "TUPLE", "DICT"):
            some = self.since_mark()
            stack.append(some if name == "LIST" else tuple(some) if name == "TUPLE" else pairs(some))
        elif name in ("APPEND", "APPENDS"):
            some = [self.pop()] if name == "APPEND" else self.since_mark()
            self.top(list).extend(some)
        elif name in ("SETITEM", "SETITEMS"):
            some = [self.pop(), self.pop()][::-1] if name == "SETITEM" else self.since_mark()
            self.top(dict).update(pairs(some))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else given] = self.top(object)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.kept(given))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, called = given.split(" ", 1) if name == "GLOBAL" else [self.pop(), self.pop()][::-1]
            stack.append(known(str(module), str(called)))
        elif name == "REDUCE":
            arguments, call = self.pop(), self.pop()
            stack.append(self.reduced(call, arguments))
        elif name == "BUILD":
            state, made = self.pop(), self.top(Made)
            made.value = built_dtype(made.value, state) if isinstance(made.value, np.dtype) else array(*state[1:])
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it asks for {name}, which plain values do not need")

    def top(self, kind: type) -> Any:
        if not self.stack or self.stack[-1] is MARK or not isinstance(self.stack[-1], kind):
            raise ValueError(f"it has no {kind.__name__} where it goes on with one")
        return self.stack[-1]

    def pop(self) -> Any:
        found = self.top(object)
        self.stack.pop()
        return found.value if isinstance(found, Made) else found

    def since_mark(self) -> list[Any]:
        found = []
        while self.stack[-1] is not MARK:
            found.append(self.pop())
        self.stack.pop()
        return found[::-1]

    def kept(self, number: int) -> Any:
        found = self.memo[number]
        if isinstance(found, (list, dict)) or (isinstance(found, tuple) and not isinstance(found, Name) and found):
            raise ValueError("it has one list in several places")
        return found.value if isinstance(found, Made) else found

    def reduced(self, call: Any, given: Any) -> Any:
        if call == ENCODE:
            text, encoding = given
            if encoding != "latin1":
                raise ValueError(f"it asks for the text encoding {encoding}")
            self.encoded += len(text)
            check_size(self.path, self.encoded)
            return text.encode("latin1")
        made = Made()
        if call == DTYPE:
            made.value = dtype(given[0])
        elif call == FROM_BUFFER:
            values, kind, shape, order = given
            made.value = array(shape, kind, order == "F", values)
        elif call != RECONSTRUCT:
            raise ValueError(f"it calls {call}, which makes no plain value")
        return made


ENCODE, DTYPE = Name("_codecs", "encode"), Name("numpy", "dtype")
RECONSTRUCT = Name("numpy.core.multiarray", "_reconstruct")
FROM_BUFFER = Name("numpy.core.numeric", "_frombuffer")
KNOWN = (ENCODE, DTYPE, RECONSTRUCT, FROM_BUFFER, Name("numpy", "ndarray"))


def known(module: str, name: str) -> Name:
    found = Name(module.replace("numpy._core", "numpy.core"), name)  # numpy 2's name and numpy 1's
    if found not in KNOWN:
        raise ValueError(f"it asks for {module}.{name}, which plain values do not need")
    return found


def pairs(some: list[Any]) -> dict[Any, Any]:
    if len(some) % 2 or not all(isinstance(key, (str, bytes)) for key in some[::2]):  # numbers can be made to collide
        raise ValueError("it has a dict whose keys are not texts")
    return dict(zip(some[::2], some[1::2]))


def dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or not re.fullmatch(r"b1|[iu][1248]|f[248]", name):
        raise ValueError(f"it has an array of {name!r}, and not of numbers")
    return np.dtype(name)


def built_dtype(made: np.dtype[Any], state: Any) -> np.dtype[Any]:
    """In the byte order of a state (version, order, subdtype, names, fields ...), of which plain ones have no more."""
    _, order, *rest = state
    if order not in ("<", ">", "|", "=") or any(one is not None for one in rest[:3]):
        raise ValueError("it has an array of tables, and not of numbers")
    return made.newbyteorder(order)


def array(shape: Any, kind: Any, columns_first: Any, values: Any) -> np.ndarray:
    if not isinstance(kind, np.dtype) or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("it has an array without sizes and a type")
    values = values.encode("latin1") if isinstance(values, str) else values  # as Python 2 wrote bytes
    return np.frombuffer(values, kind).reshape(shape, order="F" if columns_first else "C")
