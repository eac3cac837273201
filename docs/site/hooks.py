"""MkDocs hooks: what is between docs/ as it is read in the repository and docs/ as a site.

The README is the home page, files beside docs/ that pages link to become pages of their own, and formulas become
MathML, which browsers draw without any script.
"""

import html
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
AT_THE_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "UPGRADING.md": "upgrading.md",
    "SECURITY.md": "security-policy.md",
}
REFERENCE = {  # page -> its title and what it documents
    "index": ("Three lines", ["ndformer.load", "ndformer.create", "ndformer.framework.engine.load_model"]),
    "tokens": ("Tokens", ["ndformer.framework.tokens", "ndformer.framework.adapter"]),
    "attention": (
        "Attention",
        ["ndformer.framework.attention", "ndformer.framework.kernels.backend", "ndformer.framework.attention_maps"],
    ),
    "encodings": (
        "Encodings",
        ["ndformer.framework.encoding", "ndformer.framework.encoding.composed", "ndformer.framework.bias.base"]
        + [
            "ndformer.framework.encoding.scaling",
            "ndformer.framework.encoding.coverage",
            "ndformer.framework.encoding.spacing",
        ],
    ),
    "models": (
        "Models",
        ["ndformer.framework.model", "ndformer.framework.transformer", "ndformer.framework.heads.head"]
        + ["ndformer.framework.answer", "ndformer.framework.graph"],
    ),
    "data": (
        "Data",
        ["ndformer.framework.data.dataset", "ndformer.framework.data.pack", "ndformer.framework.data.stand_ins"]
        + ["ndformer.framework.data.mixer"],
    ),
    "evaluation": ("Evaluation", ["ndformer.framework.evaluation.metric", "ndformer.lab.probe"]),
}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
STYLE = ".md-grid { max-width: 78rem } math[display=block] { overflow-x: auto; overflow-y: hidden; padding: 0.3rem 0 }"
CODE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*$|^(?: {4}[^\n]*\n?)+|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".sh": "bash"}


def on_files(files: Files, config: Any) -> Files:
    add: Callable[[str, str], None] = lambda uri, text: files.append(File.generated(config, uri, content=text))
    for name, uri in AT_THE_ROOT.items():
        add(uri, (ROOT / name).read_text(encoding="utf-8"))
    for name, (title, modules) in REFERENCE.items():
        add(f"api/{name}.md", "\n\n".join([f"# {title}", *[f"::: {module}" for module in modules]]))
    add("site.css", STYLE)
    pages = [file for file in files if file.src_uri.endswith(".md")]
    sources = {path for file in pages for path in _beside_docs(file)}
    inner = {path for source in sources if source.is_dir() for path in _shown(source)}
    for source in sorted(sources | inner):
        add(_source_page(source), _source(source))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links lead to pages of the site, and lists may follow a line of text, as they do on code hosting sites."""
    home = _home(page.file.src_uri)

    def written(text: str) -> str:
        text = LINK.sub(lambda match: match[1] + _target(match[2], home, page.file.src_uri) + match[3], text)
        return re.sub(r"(?m)^(?!\s*(?:[-*]|\d+\.) )(\S.*)\n(?=(?:[-*]|1\.) )", r"\1\n\n", text)

    if page.file.src_uri.startswith("source/"):
        return markdown
    parts = CODE.split(markdown)
    return "".join(part if i % 2 else written(part) for i, part in enumerate(parts))


def on_page_content(content: str, **_: Any) -> str:
    """The formulas that arithmatex has marked, as MathML."""
    inline = lambda match: convert(html.unescape(match[1]))
    block = lambda match: convert(html.unescape(match[1]), display="block")
    content = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', inline, content, flags=re.DOTALL)
    return re.sub(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', block, content, flags=re.DOTALL)


def _home(uri: str) -> Path:
    """The folder that the links of this page are relative to."""
    return ROOT if uri in AT_THE_ROOT.values() else (ROOT / "docs" / uri).parent


def _target(link: str, home: Path, uri: str) -> str:
    """Where a link leads on the site, from the page `uri`."""
    if re.match(r"[a-z]+:|/", link):
        return link
    path = Path(os.path.normpath(home / link))
    if path.is_relative_to(ROOT / "docs"):
        there = path.relative_to(ROOT / "docs").as_posix()
    elif str(path.relative_to(ROOT)) in AT_THE_ROOT:
        there = AT_THE_ROOT[str(path.relative_to(ROOT))]
    elif path.exists():
        there = _source_page(path)
    else:
        return link  # strict builds name it
    return posixpath.relpath(there, posixpath.dirname(uri) or ".")


def _beside_docs(file: File) -> Iterator[Path]:
    """What a page links to outside of docs/, but for pages of the site."""
    home = _home(file.src_uri)
    for _, link, _ in LINK.findall(file.content_string):
        path = Path(os.path.normpath(home / link))
        inside = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "docs")
        if inside and str(path.relative_to(ROOT)) not in AT_THE_ROOT and path.exists():
            yield path


def _shown(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix in LANGUAGES and path.is_file()]


def _source_page(path: Path) -> str:
    inner = path.relative_to(ROOT).as_posix()
    return f"source/{inner}/index.md" if path.is_dir() else f"source/{inner}.md"


def _source(path: Path) -> str:
    title = f"# {path.relative_to(ROOT).as_posix()}\n\n"
    if path.is_dir():
        return title + "\n".join(f"- [{inner.name}]({inner.name}.md)" for inner in _shown(path))
    fence = "`" * 5
    return f"{title}{fence}{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n{fence}\n"
