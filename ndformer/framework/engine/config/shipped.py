"""Configs and trained models that ship with ndformer, found by name wherever it is installed."""

import shlex
from pathlib import Path

from ndformer.framework.engine.config.text import format_config, parse_encoding
from ndformer.framework.errors import ConfigError, nearest

CONFIGS = Path(__file__).parents[3] / "configs"
WEIGHTS = Path(__file__).parents[3] / "weights"  # a folder for each trained model, as ndformer export writes it
REMOVED = dict(  # end of the name of configs/DATASET_END.py -> its encoding
    alibi="ALiBi",
    lookhere="LookHere",
    nope="NoPE",
    pape_ri="PaPERI",
    rope="AxialRoPE",
    rope_mixed="RoPEMixed",
    sincos="Sincos",
)
NEVER = [("modelnet40", "lookhere"), ("scannet", "lookhere")]  # had no config
NEWER = ("qm9",)  # recipes that never had such configs
IN_PAPER = ("ade20k", "coco", "coco_vitt", "dvsgesture", "gen1", "imagenet1k", "nuscenes", "ucf101")
VARIANTS = ("LookHere", "PaPERI", "AxialRoPE", "RoPEMixed")  # which the code of the PaPE paper defines otherwise


def config_path(text: str | Path) -> Path:
    """Return the path of a config: a file or, if there is none, the shipped config of that name."""
    path = Path(text)
    shipped = CONFIGS / f"{path.stem}.py"
    return shipped if _may_ship(path) and not path.exists() and shipped.exists() else path


def model_folder(text: str | Path) -> Path:
    """Return the folder or file of a trained model: that path or, if there is none, the shipped model of that name."""
    path = Path(text)
    return WEIGHTS / path.name if path.name == str(text) in model_names() and not path.exists() else path


def model_names() -> list[str]:
    """Return the names of the trained models that ship with ndformer."""
    return sorted(folder.name for folder in WEIGHTS.iterdir() if folder.is_dir())


def base_path(name: str, home: Path) -> Path:
    """Return the path of a `_base_` in a config of the folder `home`: a file there, or a shipped config."""
    local, shipped = home / name, CONFIGS / f"{name.removesuffix('.py')}.py"
    return shipped if not local.exists() and shipped.is_file() else local


def suggest(path: Path) -> str:
    """Suggest a config for a missing one, from its folder or from the shipped configs."""
    local = [file.name for file in path.parent.glob("*.py")] if path.suffix == ".py" else []
    return nearest(path.name, local or [file.stem for file in CONFIGS.glob("*.py")])


def removed() -> dict[str, tuple[str, str]]:
    """Return the config and the encoding that take the place of each removed config, by its name."""
    datasets = [path.stem.removesuffix("_pape") for path in sorted(CONFIGS.glob("*_pape.py"))]
    datasets = [dataset for dataset in datasets if dataset not in NEWER]
    pairs = [(dataset, end) for dataset in datasets for end in REMOVED]
    pairs = [pair for pair in pairs if pair not in NEVER]
    return {f"{dataset}_{end}": (f"{dataset}_pape", paper_encoding(dataset, REMOVED[end])) for dataset, end in pairs}


def check_removed(path: Path, prefix: str) -> None:
    """Raise a ConfigError with the replacement if `path` names a removed config.

    `prefix` begins the message for a base, which lines of the user's file replace, not a command.
    """
    if path.stem not in (replacements := removed()) or not (prefix or _may_ship(path)):
        return
    config, encoding = replacements[path.stem]
    command = f"{config} --encoding {shlex.quote(encoding)}"
    base = f"_base_/{config.removesuffix('_pape')}.py"
    lines = f'_base_ = ["{base}"]\n' + format_config(dict(model=dict(backbone=dict(encoding=parse_encoding(encoding)))))
    if path.stem == "dvsgesture_pape_ri":  # only its small version had an option more
        command += f", with --sample {shlex.quote(encoding.replace(')', ', init_radius=8.0)'))}"
        lines += "sample = dict(model=dict(backbone=dict(encoding=dict(init_radius=8.0))))\n"
    if prefix:
        raise ConfigError(f"{prefix}{path} was removed. Write instead of this base:\n{lines.rstrip()}")
    raise ConfigError(f"{path} was removed. Write instead of it: {command}")


def paper_encoding(dataset: str, name: str) -> str:
    """Return an encoding as --encoding takes it, on a dataset of the PaPE paper as that paper's code defines it."""
    if dataset not in IN_PAPER or name not in VARIANTS:
        return name
    axes = ", axes=[2, 1, 0]" if name == "AxialRoPE" and dataset in ("dvsgesture", "gen1") else ""
    return f'{name}(preset="pape_repo"{axes})'


def _may_ship(path: Path) -> bool:
    return path.parent.name in ("", CONFIGS.name) and path.suffix in ("", ".py")
