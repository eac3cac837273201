"""A pickle reader for plain values only: numbers, texts, lists, dicts, tuples and numeric numpy arrays.

A pickle can make Python import and call anything, and numpy read any memory. This reader calls nothing from the pickle:
pickletools parses the opcodes, and arrays are built here from their bytes. A list, dict or tuple may be used once, so
that no value contains itself and no small file expands to a large value.
"""

import mmap
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.foreign.files import check_size
from ndformer.framework.foreign.mounts import opened

OPCODES = 2**20  # most opcodes in a file; a batch of 50,000 images has about 300,000
VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
EMPTY: dict[str, type] = dict(EMPTY_LIST=list, EMPTY_DICT=dict, EMPTY_TUPLE=tuple)
CONSTANTS = dict(NONE=None, NEWTRUE=True, NEWFALSE=False)
TUPLES = dict(TUPLE1=1, TUPLE2=2, TUPLE3=3)
MARK = object()


class Placeholder:
    """An array or a dtype, whose value is set by a later BUILD opcode."""

    value: Any = None


def plain_pickle(path: Path) -> Any:
    """Read the value of a pickle file; raise ValueError or another Python error if it is damaged or not plain."""
    return Machine(path).run()


class Machine:
    """The stack machine that executes the allowed opcodes of a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0  # total bytes encoded from texts, which a pickle can repeat many times

    def run(self) -> Any:
        with opened(self.path) as file:
            check_size(self.path, 3 * self.path.stat().st_size)  # bytes, their form as text, and an array
            mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # claimed sizes allocate nothing
            steps = pickletools.genops(mapped)
            for number, (opcode, argument, _) in enumerate(steps):
                if number > OPCODES:
                    raise ValueError(f"expected at most {OPCODES} opcodes, got more")
                if opcode.name == "STOP":
                    return self.pop()
                self.step(opcode.name, argument)
        raise ValueError("the pickle ends without the opcode STOP")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in VALUES:
            stack.append(argument)
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
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self.top(object)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.recall(argument))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, attribute = argument.split(" ", 1) if name == "GLOBAL" else [self.pop(), self.pop()][::-1]
            stack.append(allowed(str(module), str(attribute)))
        elif name == "REDUCE":
            arguments, call = self.pop(), self.pop()
            stack.append(self.reduced(call, arguments))
        elif name == "BUILD":
            state, item = self.pop(), self.top(Placeholder)
            item.value = built_dtype(item.value, state) if isinstance(item.value, np.dtype) else array(*state[1:])
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it asks for {name}, which plain values do not need")

    def top(self, kind: type) -> Any:
        if not self.stack or self.stack[-1] is MARK or not isinstance(self.stack[-1], kind):
            raise ValueError(f"it has no {kind.__name__} where it goes on with one")
        return self.stack[-1]

    def pop(self) -> Any:
        found = self.top(object)
        self.stack.pop()
        return found.value if isinstance(found, Placeholder) else found

    def since_mark(self) -> list[Any]:
        found = []
        while self.stack[-1] is not MARK:
            found.append(self.pop())
        self.stack.pop()
        return found[::-1]

    def recall(self, number: int) -> Any:
        found = self.memo[number]
        if isinstance(found, (list, dict)) or (isinstance(found, tuple) and found):
            raise ValueError("it has one list in several places")
        return found.value if isinstance(found, Placeholder) else found

    def reduced(self, call: Any, arguments: Any) -> Any:
        if call == ENCODE:
            text, encoding = arguments
            if encoding != "latin1":
                raise ValueError(f"it asks for the text encoding {encoding}")
            self.encoded += len(text)
            check_size(self.path, self.encoded)
            return text.encode("latin1")
        item = Placeholder()
        if call == DTYPE:
            item.value = dtype(arguments[0])
        elif call == FROM_BUFFER:
            values, kind, shape, order = arguments
            item.value = array(shape, kind, order == "F", values)
        elif call != RECONSTRUCT:
            raise ValueError(f"it calls {call}, which makes no plain value")
        return item


# names of functions in pickles; the texts stand for them, and are harmless as values
ENCODE, DTYPE = "_codecs.encode", "numpy.dtype"
RECONSTRUCT, FROM_BUFFER = "numpy.core.multiarray._reconstruct", "numpy.core.numeric._frombuffer"
ALLOWED = (ENCODE, DTYPE, RECONSTRUCT, FROM_BUFFER, "numpy.ndarray")


def allowed(module: str, name: str) -> str:
    found = f"{module.replace('numpy._core', 'numpy.core')}.{name}"  # names of numpy 2 and numpy 1
    if found not in ALLOWED:
        raise ValueError(f"it asks for {module}.{name}, which plain values do not need")
    return found


def pairs(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2 or not all(isinstance(key, (str, bytes)) for key in items[::2]):  # hashes of numbers can collide
        raise ValueError("it has a dict whose keys are not texts")
    return dict(zip(items[::2], items[1::2]))


def dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or not re.fullmatch(r"b1|[iu][1248]|f[248]", name):
        raise ValueError(f"it has an array of {name!r}, and not of numbers")
    return np.dtype(name)


def built_dtype(kind: np.dtype[Any], state: Any) -> np.dtype[Any]:
    """Return a dtype in the byte order of its state (version, order, subdtype, names, fields, ...)."""
    _, order, *fields = state
    if order not in ("<", ">", "|", "=") or any(value is not None for value in fields[:3]):
        raise ValueError("it has an array of tables, and not of numbers")
    return kind.newbyteorder(order)


def array(shape: Any, kind: Any, columns_first: Any, values: Any) -> np.ndarray:
    if not isinstance(kind, np.dtype) or not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError("it has an array without sizes and a type")
    values = values.encode("latin1") if isinstance(values, str) else values  # as Python 2 wrote bytes
    return np.frombuffer(values, kind).reshape(shape, order="F" if columns_first else "C")
