"""The page of the interactive attention viewer: a single HTML file that makes no requests.

Its Content-Security-Policy allows only its own script and style, by their hashes, and no request. Names of files and
classes are passed to the script as data and displayed as text.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from ndformer.framework.pictures.figures import color_map

SCRIPTS = ("numbers.js", "colors.js", "elements.js", "moments.js", "cloud.js", "hands.js", "panel.js", "explorer.js")
STYLE = "explorer.css"


def page(title: str, files: Sequence[dict[str, Any]], texts: dict[str, str]) -> str:
    """Return the HTML page with `files` and `texts`, whose content is described in ndformer/lab/explore.py."""
    code, style = (f"(() => {{\n'use strict';\n{_sources(*SCRIPTS)}}})();\n"), _sources(STYLE)
    guard = (
        f"default-src 'none'; img-src data:; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    about = dict(title=title, files=list(files), colors=colors())
    blobs = "".join(f'<script type="text/plain" id="{name}">{text}</script>\n' for name, text in texts.items())
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{guard}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer"><title>{html.escape(title)}</title>\n'
        f'<style>{style}</style></head>\n<body><main id="explorer">'
        f"<noscript>This page computes what it shows: it needs JavaScript.</noscript></main>\n"
        f'<script type="application/json" id="about">{_as_data(about)}</script>\n'
        f"<script>{code}</script>\n{blobs}</body></html>\n"
    )


def colors() -> dict[str, str]:
    """Return 256 colors of each color map, three bytes a color."""
    maps = {kind: color_map(kind)(np.linspace(0, 1, 256))[:, :3] for kind in ("share", "signed")}
    return {
        kind: base64.b64encode((rgb * 255).round().astype(np.uint8).tobytes()).decode() for kind, rgb in maps.items()
    }


def _sources(*names: str) -> str:
    folder = resources.files("ndformer.lab.explorer")
    return "".join(folder.joinpath(name).read_text("utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _as_data(value: Any) -> str:
    """Return JSON that cannot open or close an HTML tag."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
