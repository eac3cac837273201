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
# in US spelling: color, center, neighbor, gray, labeled, normalize, ...
BRITISH = re.compile(
    r"colour|centre|centring|neighbour|grey|labell|modell|cancell|behaviour|favour|licence|metres?\b|fibre|catalogue|"
    r"analyse|(?:character|discret|equal|factor|final|general|initial|linear|maxim|minim|normal|optim|organ|"
    r"parallel|parametr|quant|random|raster|recogn|regular|serial|standard|summar|symmetr|synchron|token|vector|visual)"
    r"is(?:e[drs]?|ing|ations?)\b"
)
# refused words that stay, and why
EXCEPTIONS: dict[str, dict[str, str]] = {  # the reason -> the file, in ndformer/ or at the root -> its names
    "a config key": {
        "encodings/logcpb.py": "trained",
        "encodings/pape.py": "class_at",
        "encodings/pape_compact.py": "class_at",
        "encodings/relative.py": "reach",
        "encodings/relative_bias.py": "reach",
        "framework/adapter.py": "class_at",
        "framework/encoding/base.py": "class_at",
        "framework/encoding/composed.py": "class_at",
        "framework/engine/training/token_lengths.py": "multiple_of",
        "modalities/driving/models/center_point.py": "least_score most",
        "framework/heads/detector.py": "least_score least_side most",
        "modalities/driving/models/trans_fusion.py": "least_score",
        "framework/model.py": "class_at",
        "integrations/hosting.py": "class_at",
        "integrations/huggingface.py": "class_at",
        "integrations/timm.py": "class_at",
        "modalities/arc/datasets/tasks.py": "drawn",
        "modalities/driving/transforms/pack.py": "reach",
        "modalities/events/adapter.py": "class_at",
        "modalities/events/datasets/gen1/dataset.py": "most",
        "modalities/events/datasets/gen1/metric.py": "least_diagonal least_side",
        "modalities/events/transforms/events.py": "most",
        "modalities/image/adapter.py": "class_at",
        "modalities/image/transforms/aspect.py": "multiple_of",
        "modalities/pointcloud/transforms/points.py": "most whole",
        "modalities/pointcloud/transforms/scenes.py": "most",
        "modalities/video/adapter.py": "class_at",
        "studies/small.py": "class_at",
    },
    "the name of an encoding": {
        "encodings/lookhere.py": "LookHere",
    },
    "a name in the state_dict": {
        "encodings/pe_mixer.py": "of_position of_token",
        "encodings/rotary.py": "drawn",
        "modalities/driving/models/unitr/layers.py": "own",
        "framework/heads/detector.py": "one",
        "modalities/driving/models/trans_fusion.py": "own",
        "modalities/pointcloud/adapter.py": "own",
    },
    "a held-out set is the term": {
        "framework/data/arranged.py": "held_out",
        "framework/data/dataset.py": "held_out held_out_by",
        "modalities/driving/datasets/nuscenes/dataset.py": "held_out",
        "modalities/pointcloud/datasets/scenes.py": "held_out",
        "modalities/video/datasets/folder.py": "held_out",
        "modalities/video/datasets/ucf101.py": "held_out_by",
        "studies/thesis/red_green.py": "held_out",
    },
    "ndformer.load(...).looks() is public": {
        "framework/engine/load_model.py": "looks",
    },
    "public: an option, an argument of with_encoding": {
        "framework/engine/training/pretrained.py": "keep_encoding",
        "integrations/huggingface.py": "keep_table",
        "integrations/timm.py": "keep_table",
        "lab/compare.py": "keep_encoding",
    },
    "a registered name": {
        "framework/engine/training/schedules.py": "OneCycle",
        "modalities/arc/datasets/tasks.py": "DrawnTasks",
        "modalities/driving/transforms/scenes.py": "KeepRange MoveScene",
        "modalities/events/transforms/events.py": "OneOf",
        "modalities/image/transforms/aspect.py": "KeepAspect",
        "modalities/pointcloud/datasets/scenes.py": "Scenes",
    },
    "a key of the samples with cameras": {
        "modalities/driving/adapter.py": "seen",
    },
    "the name of a data set": {
        "modalities/driving/datasets/nuscenes/dataset.py": "NuScenes",
        "modalities/driving/datasets/nuscenes/metric.py": "NuScenes",
    },
    "a scene of ScanNet or nuScenes": {
        "modalities/driving/formats/frames.py": "scene",
        "modalities/driving/formats/splits.py": "SCENES split_scenes",
        "modalities/driving/pictures/scenes.py": "scenes",
        "modalities/driving/pictures/tokens.py": "SensorScene",
        "modalities/driving/stand_ins/nuscenes.py": "scene",
        "modalities/driving/transforms/scenes.py": "scenes",
        "modalities/pointcloud/datasets/scannet_raw.py": "scene",
        "modalities/pointcloud/datasets/scenes.py": "list_scenes scenes",
        "modalities/pointcloud/describe/sets.py": "_scene",
        "modalities/pointcloud/formats/scene.py": "is_scene read_scene scene",
        "modalities/pointcloud/stand_ins/baselines.py": "scene_baselines",
        "modalities/pointcloud/transforms/scenes.py": "scenes",
        "modalities/pointcloud/voting.py": "scene_votes vote_scenes",
        "tools/prepare_scannet.py": "scene",
        "tools/vote.py": "scenes",
    },
    "keys of the saved index of nuScenes": {
        "modalities/driving/formats/frames.py": "scene_of taken",
    },
}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Functions, classes, parameters, attributes, fields and constants; local variables may be short."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from _assigned(node.body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]
            yield from ((argument.lineno, argument.arg) for argument in every)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield the names that a module or class assigns, also under an if, try or with."""
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                stored = (node for node in ast.walk(target) if isinstance(node, ast.Name))
                yield from ((node.lineno, node.id) for node in stored if isinstance(node.ctx, ast.Store))
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _assigned(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from _assigned(handler.body)


def refused(name: str) -> set[str]:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
    return REFUSED.intersection(words) | {word for word in words if BRITISH.search(word)}


def test_identifiers_are_words_of_the_field_and_every_exception_is_needed() -> None:
    allowed = {(file, name) for files in EXCEPTIONS.values() for file, words in files.items() for name in words.split()}
    found, used = [], set[tuple[str, str]]()
    for file in sorted(file for folder in ("ndformer", "tools", "examples") for file in (ROOT / folder).rglob("*.py")):
        inside = str(file.relative_to(ROOT)).removeprefix("ndformer/")
        for line, name in [(1, file.stem), *names(ast.parse(file.read_text()))]:
            used.add((inside, name))
            if refused(name) and (inside, name) not in allowed:
                found.append(f"{file.relative_to(ROOT)}:{line}: {name} ({', '.join(sorted(refused(name)))})")
    assert not found, "\n".join(found)
    assert allowed <= used, f"not needed any more: {sorted(allowed - used)}"


def test_the_lint_refuses_what_it_should() -> None:
    source = (
        "class Look:\n told: int\n held, x = 1, 2\n def f(self, kept, *, x_of=1):\n  self.near_by = 1\n  seen = 2\n"
    )
    source += "if x:\n MOST = near[0] = 3\n"
    expected = ["MOST", "Look", "told", "held", "kept", "x_of", "near_by"]
    assert sorted(name for _, name in names(ast.parse(source)) if refused(name)) == sorted(expected)
    assert not refused("nearest_neighbor")
    assert not refused("offset")
    for name in ("UnitColours", "recentred", "class_centres", "normalised", "FactorisedTransformer", "write_labelled"):
        assert refused(name), name
    for name in ("analysis", "optimistic", "parameters", "raised", "label_all", "recognizes", "gray", "color_jitter"):
        assert not refused(name), name


@pytest.mark.slow
def test_errors_of_the_library_name_no_command_line_option() -> None:
    """Options belong in the second argument of a DataError, which only programs print.

    Programs and studies, which have command lines, may name them.
    """
    strangers = []
    for file in sorted((ROOT / "ndformer").rglob("*.py")):
        inside = file.relative_to(ROOT / "ndformer").as_posix()
        if inside.startswith(("tools/", "configs/", "cli/", "lab/")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                sentence = ast.unparse(node.exc.args[0])
                strangers += [f"{inside}:{node.lineno}: {sentence}"] if re.search(r"--[a-z]", sentence) else []
    assert not strangers, strangers
