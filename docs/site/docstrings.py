"""A griffe extension: examples in docstrings, which stand there without marks, become code on the site."""

import re
from typing import Any

import griffe

CODE = re.compile(r"(?:import|from|with|for|def|class|@|\$|tools/|ndformer )\s?\S|[\w.\[\], ]+ = \S|[\w.]+\(.*\)|\s{4}")


class Examples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            parts = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join([parts[0], *map(_marked, parts[1:])])


def _marked(part: str) -> str:
    return f"```python\n{part}\n```" if CODE.match(part) else part
