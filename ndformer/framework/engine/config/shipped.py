"""Configs that ship with ndformer, found by name wherever it is installed."""

from pathlib import Path

from ndformer.framework.errors import nearest

CONFIGS = Path(__file__).parents[3] / "configs"


def config_path(text: str | Path) -> Path:
    """Return the path of a config: a file or, if there is none, the shipped config of that name."""
    path = Path(text)
    is_name = path.parent.name in ("", CONFIGS.name) and path.suffix in ("", ".py")
    shipped = CONFIGS / f"{path.stem}.py"
    return shipped if is_name and not path.exists() and shipped.exists() else path


def base_path(name: str, home: Path) -> Path:
    """Return the path of a `_base_` in a config of the folder `home`: a file there, or a shipped config."""
    local, shipped = home / name, CONFIGS / f"{name.removesuffix('.py')}.py"
    return shipped if not local.exists() and shipped.is_file() else local


def suggest(path: Path) -> str:
    """Suggest a config for a missing one, from its folder or from the shipped configs."""
    local = [file.name for file in path.parent.glob("*.py")] if path.suffix == ".py" else []
    return nearest(path.name, local or [file.stem for file in CONFIGS.glob("*.py")])
