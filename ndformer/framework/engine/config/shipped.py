"""Configs that ship with ndformer, by their names, wherever it is installed."""

from pathlib import Path

from ndformer.framework.errors import nearest

CONFIGS = Path(__file__).parents[3] / "configs"


def config_path(text: str | Path) -> Path:
    """A file; without one, that of the configs which ship with ndformer."""
    path = Path(text)
    own = path.parent.name in ("", CONFIGS.name) and path.suffix in ("", ".py")
    shipped = CONFIGS / f"{path.stem}.py"
    return shipped if own and not path.exists() and shipped.exists() else path


def base_path(name: str, home: Path) -> Path:
    """A base, as a file of that folder names it: a file beside it, or one of those that ship."""
    beside, shipped = home / name, CONFIGS / f"{name.removesuffix('.py')}.py"
    return shipped if not beside.exists() and shipped.is_file() else beside


def meant(path: Path) -> str:
    """The end of a sentence about a config that is not there: those beside it and those that ship, by their names."""
    beside = [one.name for one in path.parent.glob("*.py")] if path.suffix == ".py" else []
    return nearest(path.name, beside or [one.stem for one in CONFIGS.glob("*.py")])
