"""docs/reference/cli.md: every command with its form, an example and its options, as the argument parsers have them.

`python -m tests.docs.test_cli_page` writes the generated parts of the page.
"""

import argparse
import ast
import functools
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ndformer.__main__ import GROUPS, TOOLS
from ndformer.cli import program, show_dir
from ndformer.framework.engine.training import checkpoint
from tests.docs import made
from tests.docs.cli_examples import AFTER, EXAMPLES

PAGE = "docs/reference/cli.md"
SHARED = {  # name of a group of options -> what adds them to a parser
    "encoding": (lambda parser: parser.add_argument("--encoding"),),
    "settings": (program.setting_arguments,),
    "weights": (program.weights_arguments,),
    "device": (program.device_argument,),
    "positions": (checkpoint.arguments,),
    "pictures": (show_dir.arguments,),
}
STANDARD = ("show program's version number and exit", argparse.SUPPRESS)  # help of --version, and of old names
AGAIN = "a parser has changed: `python -m tests.docs.test_cli_page` writes the page anew"


class _Parsed(BaseException):
    """Raised in place of parsing, with the parser: program.run() catches every Exception."""


@functools.cache
def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the argument parser of a program: start it, and stop it where it parses its arguments."""

    def stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _Parsed(parser)

    path = str(TOOLS / f"{name}.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path])
        patch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
        with pytest.raises(_Parsed) as stopped:
            runpy.run_path(path, run_name="__main__")
    return stopped.value.args[0]


def purpose(name: str) -> str:
    text = ast.get_docstring(ast.parse((TOOLS / f"{name}.py").read_text())) or ""
    return text.partition("\n")[0]


def benchmarks() -> list[str]:
    paths = sorted((TOOLS / "benchmarks").glob("*.py"))
    return [f"benchmarks/{path.stem}" for path in paths if "__main__" in path.read_text()]


@functools.cache
def shared_options() -> dict[str, str]:
    """Return the group of each option that several programs share."""
    groups: dict[str, str] = {}
    for group, adders in SHARED.items():
        parser = argparse.ArgumentParser(add_help=False)
        for add in adders:
            add(parser)
        names = [action.option_strings[0] for action in parser._actions if action.option_strings]
        groups |= dict.fromkeys(names, group)
    return groups


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _value(action: argparse.Action) -> str:
    """Return the value of an option or argument as a usage line has it, such as `N ...`."""
    if action.nargs == 0:
        return ""
    metavar = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    words = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if not action.option_strings and " | " in words:
        words = f"({words})"
    return {"+": f"{words} ...", "*": f"[{words} ...]", "?": f"[{words}]"}.get(str(action.nargs), words)


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if action.option_strings and action.option_strings[-1] != "--help" and action.help not in STANDARD:
            yield action


def form(parser: argparse.ArgumentParser) -> str:
    words = [_value(action) for action in arguments(parser)]
    if [action.dest for action in arguments(parser)][:2] == ["config", "checkpoint"]:
        words[:2] = ["(RUN_DIR | CONFIG CHECKPOINT)"]
    return " ".join([parser.prog, *words, *["[OPTIONS]"] * any(options(parser))])


def row(action: argparse.Action) -> str:
    name = " ".join(filter(None, [*action.option_strings[-1:], _value(action)]))
    return f"| `{_cell(name)}` | {_cell(action.help or '')} |\n"


def has_row(action: argparse.Action) -> bool:
    """Return whether an argument or option needs a row: it is not shared, and its help adds to the form of the call."""
    if action.option_strings:
        return action.option_strings[0] not in shared_options()
    return action.help is not None and action.dest != "config"


def table(parser: argparse.ArgumentParser) -> str:
    rows = "".join(row(action) for action in [*arguments(parser), *options(parser)] if has_row(action))
    return f"\n| option | meaning |\n|---|---|\n{rows}" if rows else ""


def described(parser: argparse.ArgumentParser) -> str:
    """Return form, shared options and table of a program, or of one of the programs in it."""
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if nested:
        return "\n".join(described(inner) for inner in nested[0].choices.values())
    own = {action.option_strings[0] for action in options(parser)}
    groups = {group: {name for name, place in shared_options().items() if place == group} for group in SHARED}
    complete = [group for group, names in groups.items() if names <= own]
    single = sorted(own & shared_options().keys() - {name for group in complete for name in groups[group]})
    shared = ", ".join([*complete, *[f"`{name}`" for name in single]])
    text = f"`{form(parser)}`" + (f", with the [shared options](#shared-options) {shared}" if shared else "")
    return f"{text}.\n{table(parser)}"


def section(name: str) -> str:
    example = f"\n```sh\nndformer {EXAMPLES[name]}\n```\n"
    after = f"\n{AFTER[name]}\n" if name in AFTER else ""
    return f"### {name}\n\n{purpose(name)}\n\n{described(parser_of(name))}{after}{example}\n"


def commands() -> str:
    parts = [f"## {title}\n\n{''.join(map(section, names.split()))}" for title, names in GROUPS.items()]
    return "\n" + "".join(parts)


def benchmark_rows() -> str:
    rows = []
    for name in benchmarks():
        words = [_value(action) for action in arguments(parser_of(name))]
        words += [f"[{' '.join(filter(None, [o.option_strings[-1], _value(o)]))}]" for o in options(parser_of(name))]
        rows.append(f"| `{_cell(' '.join([name, *words]))}` | {_cell(purpose(name))} |\n")
    return "\n| `ndformer` ... | purpose |\n|---|---|\n" + "".join(rows) + "\n"


def shared_rows() -> str:
    rows = []
    for group, adders in SHARED.items():
        parser = argparse.ArgumentParser(add_help=False)
        for add in adders:
            add(parser)
        known = {action.option_strings[0]: action for action in parser_of("train")._actions if action.option_strings}
        for action in options(parser):
            rows.append(f"| {group} {row(known.get(action.option_strings[0], action))}")
    return "\n| group | option | meaning |\n|---|---|---|\n" + "".join(rows) + "\n"


PARTS = {"shared options": shared_rows, "commands": commands, "benchmarks": benchmark_rows}


@pytest.mark.parametrize("name", PARTS)
def test_the_page_has_the_options_of_the_parsers(name):
    assert made.part(PAGE, name) == PARTS[name](), AGAIN


def test_every_program_has_an_example():
    programs = " ".join(GROUPS.values()).split()
    assert list(EXAMPLES) == programs
    assert all(example.split()[0] == name for name, example in EXAMPLES.items())
    page = (made.ROOT / PAGE).read_text()
    assert re.findall(r"^### (\S+)$", page, re.MULTILINE) == programs


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_parsed(name, tmp_path, monkeypatch):
    for file in ("config.json", "best.pth"):
        folder = tmp_path / shlex.split(EXAMPLES[name])[1]
        if folder.parent.name == "work_dirs":
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
    monkeypatch.chdir(tmp_path)
    parser_of(name).parse_args(shlex.split(EXAMPLES[name])[1:])


def test_every_option_of_a_program_is_explained():
    for name in EXAMPLES:
        for action in options(parser_of(name)):
            assert action.help, f"{name} {action.option_strings}"


if __name__ == "__main__":
    if not Path(PAGE).is_file():
        sys.exit(f"{PAGE}: expected the page in the current folder, found none. Start in the root of the repository")
    for part, write in PARTS.items():
        made.rewrite(PAGE, part, write())
