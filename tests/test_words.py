"""Names say what things are in the words of the field: a list of words is refused as identifiers (issue 45.1)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFUSED = set(
    re.findall(
        r"\w+",
        """
        told tell tells look looks looked scene scenes kept keep held hold taken asked near halvings riding rides ride
        pays falls falling reach dealt board apart guest heap field fitted fitting trained shown joined conduct spelled
        worded said says say whole own rest others one most least beside between thing things seen found wanted drawn
        given made known ours theirs what way at of here there gone come
        """,
    )
)
# refused words that stay, and why
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(
        ["class_at", "multiple_of", "reach", "most", "least_score", "least_side", "least_diagonal"], "a config key"
    ),
    **dict.fromkeys(["keep_own", "whole", "known", "trained"], "a config key"),
    **dict.fromkeys(["keep_encoding", "keep_table"], "public: an option, an argument of with_encoding"),
    **dict.fromkeys(["of_token", "of_position", "drawn", "own", "one", "told"], "in the state_dict, or a config key"),
    **dict.fromkeys(["held_out", "held_out_by"], "a held-out set is the term"),
    **dict.fromkeys(["LookHere", "_LookHereLayer"], "the name of an encoding"),
    **dict.fromkeys(
        ["OneCycle", "OneOf", "KeepAspect", "KeepRange", "DrawnTasks", "MoveScene", "Scenes"], "a registered name"
    ),
    **dict.fromkeys(["scene", "scenes", "_scene", "SensorScene", "split_scenes", "list_scenes"], "ScanNet, nuScenes"),
    **dict.fromkeys(["is_scene", "read_scene", "scene_baselines", "scene_votes", "vote_scenes"], "ScanNet's scenes"),
    **dict.fromkeys(["NuScenes"], "the name of a data set"),
    **dict.fromkeys(["scene_of", "taken"], "keys of the saved index of nuScenes"),
    "seen": "a key of the samples with cameras",
    "looks": "ndformer.load(...).looks() is public",
}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Functions, classes, parameters, attributes and fields; local variables may be short."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        if isinstance(node, ast.ClassDef):
            yield from _fields(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]
            yield from ((argument.lineno, argument.arg) for argument in every)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _fields(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.lineno, statement.target.id


def refused(name: str) -> set[str]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    return REFUSED.intersection(words)


def test_identifiers_are_words_of_the_field_and_every_exception_is_needed() -> None:
    found, used = [], set[str]()
    for file in sorted(file for folder in ("ndformer", "tools", "examples") for file in (ROOT / folder).rglob("*.py")):
        for line, name in [(1, file.stem), *names(ast.parse(file.read_text()))]:
            used.add(name)
            if refused(name) and name not in EXCEPTIONS:
                found.append(f"{file.relative_to(ROOT)}:{line}: {name} ({', '.join(sorted(refused(name)))})")
    assert not found, "\n".join(found)
    assert set(EXCEPTIONS) <= used, f"not needed any more: {sorted(set(EXCEPTIONS) - used)}"


def test_the_lint_refuses_what_it_should() -> None:
    source = "class Look:\n told: int\n def f(self, kept, *, x_of=1):\n  self.near_by = 1\n  seen = 2\n"
    expected = ["Look", "told", "kept", "x_of", "near_by"]
    assert [name for _, name in names(ast.parse(source)) if refused(name)] == expected
    assert not refused("nearest_neighbor")
    assert not refused("offset")


@pytest.mark.slow
def test_errors_of_the_library_name_no_command_line_option() -> None:
    """Options belong in the second argument of a DataError, which only programs print.

    Programs and studies, which have command lines, may name them.
    """
    strangers = []
    for file in sorted((ROOT / "ndformer").rglob("*.py")):
        inside = file.relative_to(ROOT / "ndformer").as_posix()
        if inside.startswith(("tools/", "configs/", "framework/engine/programs/", "lab/")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                sentence = ast.unparse(node.exc.args[0])
                strangers += [f"{inside}:{node.lineno}: {sentence}"] if re.search(r"--[a-z]", sentence) else []
    assert not strangers, strangers
