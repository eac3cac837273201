"""Descriptions of driving files: nuScenes' scans, tables and prediction files."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.describe import NAME, NO, Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.driving.formats.classes import CATEGORIES
from ndformer.modalities.driving.formats.scans import CLOSE
from ndformer.modalities.driving.formats.tables import TABLES

COLUMNS: tuple[str, ...] = ("x", "y", "z", "intensity", "ring")
WIDE = len(COLUMNS)  # numbers per point
FIRST = 20  # rows that are shown
MAX_LENGTH = 60  # characters of a value
FOREIGN = 100.0  # meters, beyond the range of this LiDAR


@DESCRIBERS.register_module()
class Scan(Describer):
    names = r".*\.pcd\.bin"

    def describe(self, path: Path, rows: int) -> Description:
        raw = _bytes(path)
        extra = len(raw) % (4 * WIDE)
        points = np.frombuffer(raw[: len(raw) - extra], "<f4").reshape(-1, WIDE)
        finite = np.isfinite(points).all(1)
        facts: dict[str, Any] = dict(format="LiDAR scan (nuScenes)", points=len(points))
        valid = points[finite]
        for name, column in zip(COLUMNS, valid.T if len(valid) else ()):
            facts[name] = [round(float(column.min()), 3), round(float(column.max()), 3)]
        if len(valid):
            facts |= dict(rings=len(np.unique(valid[:, 4])))
            facts |= dict(on_the_car=int((np.abs(valid[:, :2]) < CLOSE).all(1).sum()))
        odd = {
            f"{extra} bytes at its end are no row of {WIDE} numbers: it is cut off": extra,
            f"{(~finite).sum()} of {len(points)} points are not finite": (~finite).any(),
            "it holds no points": not len(points),
            f"some points are farther than {FOREIGN:g} m": len(valid) and (np.abs(valid[:, :3]) > FOREIGN).any(),
            "rings are no whole numbers": len(valid) and (valid[:, 4] != np.rint(valid[:, 4])).any(),
        }
        first_rows = points[:FIRST].astype(float).round(3).tolist()
        first: list[dict[str, Any]] = [dict(zip(COLUMNS, row)) for row in first_rows]
        return facts, true_sentences(odd), first


@DESCRIBERS.register_module()
class Table(Describer):
    names = rf"({'|'.join(TABLES)})\.json"

    def claim(self, path: Path, begin: bytes) -> int:
        """Require a list of rows with tokens, because other files have these names too."""
        rows = begin.lstrip()[:1] == b"[" and (b'"token"' in begin or begin.strip() == b"[]")
        return super().claim(path, begin) if rows else NO

    def describe(self, path: Path, rows: int) -> Description:
        tokens: set[str] = set()
        first: list[dict[str, Any]] = []
        counts: Counter[str] = Counter()
        count, keys, odd = 0, set(), {}
        try:
            for row in foreign.json_rows(path):
                keys |= row.keys()
                if count < FIRST:
                    first.append({name: str(value)[:MAX_LENGTH] for name, value in row.items()})
                tokens.add(str(row.get("token")))
                counts[str(row.get("name", ""))[:MAX_LENGTH]] += path.stem == "category"
                count += 1
        except (OSError, ValueError) as error:
            odd[f"after {count} rows {error}"] = True
        facts: dict[str, Any] = dict(format=f"nuScenes table ({path.stem})", rows=count)
        facts |= dict(columns=", ".join(sorted(keys)))
        if path.stem == "category":
            facts |= dict(detected=sum(name in CATEGORIES for name in counts))
        odd |= {
            "it is empty": not count and not odd,
            f"{count - len(tokens)} rows have the token of another one": len(tokens) < count,
        }
        return facts, true_sentences(odd), first


@DESCRIBERS.register_module()
class Submission(Describer):
    endings = ()

    def claim(self, path: Path, begin: bytes) -> int:
        return NAME if path.suffix == ".json" and b'"results"' in begin and b'"use_lidar"' in begin else NO

    def describe(self, path: Path, rows: int) -> Description:
        try:
            content = foreign.plain_json(path)
            results: dict[str, list[dict[str, Any]]] = content["results"]
            boxes = [row for some in results.values() for row in some]
            classes = Counter(str(row["detection_name"]) for row in boxes)
            scores = [float(row["detection_score"]) for row in boxes]
            first = [{name: str(value)[:MAX_LENGTH] for name, value in row.items()} for row in boxes[:FIRST]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            reason = " ".join(str(error).split())[:MAX_LENGTH]
            raise DataError(f"{path} cannot be read as nuScenes' predictions ({reason}): export it again") from None
        facts: dict[str, Any] = dict(format="nuScenes predictions", samples=len(results), boxes=len(boxes))
        facts |= dict(classes=dict(classes)) if boxes else {}
        facts |= dict(scores=[min(scores), max(scores)]) if boxes else {}
        empty = sum(not some for some in results.values())
        odd = {f"{empty} of {len(results)} samples have no boxes": empty, "it has no samples": not results}
        return facts, true_sentences(odd), first


def _bytes(path: Path) -> bytes:
    try:
        return foreign.content(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): give another file") from None
