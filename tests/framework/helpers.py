"""What several tests of the framework look with."""

import base64
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ndformer.framework.errors import DataError
from ndformer.framework.registry import ENCODINGS


def relative(ours: Tensor, exact: Tensor) -> float:
    return ((ours.double() - exact.double()).abs().max() / max(1.0, exact.abs().max().item())).item()


def spy(monkeypatch: pytest.MonkeyPatch, holder: Any, name: str) -> list[str]:
    called: list[str] = []
    inner: Callable[..., Any] = holder[name] if isinstance(holder, dict) else getattr(holder, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return inner(*args, **kwargs)

    if isinstance(holder, dict):
        monkeypatch.setitem(holder, name, outer)
    else:
        monkeypatch.setattr(holder, name, outer)
    return called


def damage_sample(data: Any, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the decoding of one sample fail, and skip bad samples."""
    decode = data._decode

    def decode_others(i: int) -> Any:
        if i == number:
            raise DataError(f"sample {number} is damaged")
        return decode(i)

    monkeypatch.setattr(data, "_decode", decode_others)
    data.skip_bad = True


ENCODINGS.get("NoPE")  # the first look-up finds all
CAMERAS: dict[str, dict[str, Any]] = {"GTA": dict(cameras=0.5), "PRoPE": {}}  # options of encodings that use cameras
ANYWHERE = sorted(name for name, kind in ENCODINGS.module_dict.items() if not kind.needs_grid)


class Largest(TorchDispatchMode):
    """The most elements of a tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and 0 not in tensor.stride():
                self.size = max(self.size, tensor.numel())
        return out


class Drawn:
    """Samples that answers are about, drawn by a function of their numbers; what is written is noted."""

    def __init__(self, picture: Any) -> None:
        self.picture, self.original, self.written = picture, picture, []

    def write_labeled(self, stem: Any, i: int, labels: Any) -> None:
        self.written.append((stem, i, labels.tolist()))


HEIC = zlib.decompress(  # 48 x 32 pixels of four colors, by x265; its box irot turns it clockwise
    base64.b85decode(
        "c-muNV30{GsVvAy%}izhg51nBLl8SRGck>Ufw4U|wIq=N0u(b+a*CjAhJwuG5(YG&l$nzcHpIn&fe{FSfN?d127+E7R?f`KO9S&j"
        "qM|@fDif5KQI>27V)7MamgK^eFtTSB6cqs3&oT>=^MQ03P?<9$Ge~FxSdrWZhChFQ{9s_<XHEd>kZ@q+Vf_Ceq<|Tuf*FM5b}>05"
        "0wuMa7#Y!I7AQ2bPJ8ua+0Gpt83qbKA!ZQ4pqK<y&gQ~+u=qeH&=TR~{G6h^<eUniC@%wB15ijLv$!A?>N5u@)=17t1i8!r>OTb#"
        "{r~^}4?vm;NIwA4KrB#@S&<3S$jrgP0i-xHi}Fi=?qQJ3EXak0HZTC$8kv|`TiSq}skteMpy2M*U|i4n;IYT7Y5%{j|Nkeil3z;a"
        "SoqQ0#$|t8>wnD+$Zlyna-K&>V1xYUEe=&$rvCyz6~%?uz1r|yCUjbO!+9$X6$TyA*(WB(UU|BORmpYMrqVZ^Z<emAFL3!$|7V5U"
        "nr$y9O)X-u3x48II#t+GrsjovRGsmawNiH`a7Uyi-PyixTEboJcSRBt0L!G5X#"
    )
)
