"""Arrays in a page as base64: floats of 32 or 64 bits or, where exact enough, fixed-point numbers of 16 or 20 bits."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

Header = dict[str, Any]
BITS = (16, 20)  # of a number in fixed point


class Blob:
    """Concatenated arrays as one text. `headers` has type, shape and offset of each; add() returns its index."""

    def __init__(self) -> None:
        self.headers: list[Header] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._index: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, values: np.ndarray) -> int:
        """Add an array as float32, or as float64 if it is float64."""
        return self._put(values, "f8" if values.dtype == np.float64 else "f4")

    def add_fixed(self, values: np.ndarray, bits: int) -> int:
        """Add an array (H, N, h) in fixed point, with a step size per channel of a head.

        With 20 bits, the lowest 4 bits are a separate array with two numbers per byte.
        """
        steps = _steps(values, bits)
        integers, more = np.rint(values / steps).astype(np.int32), dict(steps=self.add(steps[:, 0]))
        if bits == 20:
            low = np.append((integers & 15).ravel(), [0] * (integers.size % 2)).astype(np.uint8)
            integers, more = integers >> 4, more | dict(low=self._put(low[::2] | low[1::2] << 4, "u1"))
        return self._put(integers, "i2", **more)

    def _put(self, values: np.ndarray, kind: str, **more: int) -> int:
        data = np.ascontiguousarray(values).astype(f"<{kind}").tobytes()
        key = kind, values.shape, data
        if key not in self._index or more:
            self._index[key] = len(self.headers)
            self.headers.append(dict(kind=kind, shape=list(values.shape), at=self._size, **more))
            data += bytes(-len(data) % 8)  # align the next array for any type
            self._parts.append(data)
            self._size += len(data)
        return self._index[key]

    @property
    def text(self) -> str:
        return base64.b64encode(b"".join(self._parts)).decode()


def fixed(values: np.ndarray, bits: int) -> np.ndarray:
    """Return values (H, N, h) as the page reads them after add_fixed()."""
    steps = _steps(values, bits)
    return (np.rint(values / steps) * steps).astype(np.float32)


def _steps(values: np.ndarray, bits: int) -> np.ndarray:
    """Return the quantization steps (H, 1, h) float32."""
    largest = np.abs(values).max(1, keepdims=True, initial=0.0)
    return np.where(largest > 0, largest / (2 ** (bits - 1) - 1), 1.0).astype(np.float32)


def read(headers: Sequence[Header], text: str, number: int) -> np.ndarray:
    """Decode an array as the page does."""
    header, data = headers[number], base64.b64decode(text)
    kind, shape = np.dtype(f"<{header['kind']}"), header["shape"]
    values = np.frombuffer(data, kind, int(np.prod(shape)), header["at"]).reshape(shape)
    if "low" in header:
        pairs = read(headers, text, header["low"])
        low = np.stack([pairs & 15, pairs >> 4], -1).ravel()[: values.size].reshape(shape)
        values = values.astype(np.int32) * 16 + low
    return values * read(headers, text, header["steps"])[:, None] if "steps" in header else values
