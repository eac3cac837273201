"""Self-contained HTML pages: pictures are embedded, no scripts run, and no requests are made."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem }
h1 { margin-top: .5rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { padding: .2rem .8rem .2rem 0; text-align: right }
td:first-child, th:first-child { text-align: left }
thead th { border-bottom: 1px solid #999; font-weight: 600 }
tbody tr:nth-child(even) { background: #f4f6f8 }
img { max-width: 100%; height: auto }
.cards, .beside { display: flex; flex-wrap: wrap; gap: .5rem; align-items: flex-start }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 0 2rem }
.columns section { min-width: 0 }
.headline { font-size: 1.2rem; margin: .5rem 0 1rem }
.headline strong { font-size: 2.6rem; font-weight: 600; color: #084a91 }
.samples img { max-width: min(100%, 33rem) }
.beside figure { margin: 0; flex: 1 1 20rem; min-width: 0 }
figcaption { color: #555; font-size: 14px; overflow-wrap: anywhere }
.bar { display: inline-block; height: .7rem; background: #3b6ea8; vertical-align: middle }
details > summary { margin: .4rem 0 }
pre { overflow-x: auto; background: #f4f6f8; padding: .8rem; font-size: 14px }
summary { cursor: pointer; color: #3b6ea8 }
.note { color: #555 }
"""
GUARD = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # blocks all requests


class Markup(str):
    """Text that is HTML; other text is escaped when it is inserted."""


def _inner(value: Any) -> str:
    return value if isinstance(value, Markup) else html.escape(str(value))


def element(tag: str, *inner: Any, **attributes: str) -> Markup:
    pairs = "".join(f' {name.rstrip("_")}="{html.escape(value)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{pairs}>{''.join(map(_inner, inner))}</{tag}>")


def join_markup(parts: Iterable[Any]) -> Markup:
    return Markup("\n".join(map(_inner, parts)))


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    lines = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    title = element("thead", element("tr", *(element("th", cell) for cell in head)))
    return element("table", title, element("tbody", *lines))


def section(title: str, *inner: Any) -> Markup:
    return element("section", element("h3", title), *inner)


def columns(*sections: Markup) -> Markup:
    """Place sections side by side, as many as fit."""
    return element("div", *sections, class_="columns") if sections else Markup("")


def png_width(png: bytes) -> int:
    """Return the width of a PNG in pixels, from its header."""
    return int.from_bytes(png[16:20], "big")


def picture(png: bytes | Any, alt: str) -> Markup:
    """Embed the bytes of a PNG, or a PIL image, with an alternative text."""
    if not isinstance(png, bytes):
        buffer = io.BytesIO()
        png.save(buffer, "PNG", optimize=True)
        png = buffer.getvalue()
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return Markup(f'<img src="{source}" alt="{html.escape(alt)}">')


def bar(share: float) -> Markup:
    """Draw a bar whose length is a share of the full width."""
    return element("span", class_="bar", style=f"width: {6 * share:.2f}rem")


def folded(title: Any, *inner: Any) -> Markup:
    return element("details", element("summary", title), *inner)


def page(title: str, *inner: Any) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{GUARD}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{join_markup([element('h1', title), *inner])}</body></html>\n"
    )
