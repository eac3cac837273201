"""mmengine where OpenCV is installed and cannot load, as on servers without a display; tests/headless has the whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARY = "libGL.so.1: cannot open shared object file: No such file or directory"
CODE = """
import ndformer.framework.engine.training.trainer
from ndformer.framework.system import opencv
opencv.import_module("mmengine.hooks")
opencv.import_module("mmengine.visualization")
import sys
drawing = sys.modules["mmengine.visualization.visualizer"]
print(type(drawing.cv2).__name__)
print([entry for entry in sys.path if entry.endswith("cv2")])
try:
    import cv2
except ImportError:
    print("not there")
try:
    drawing.cv2.imread("x.png")
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_libgl_the_engine_works_and_drawing_says_what_is_missing(tmp_path):
    (tmp_path / "cv2").mkdir()
    bootstrap = "import os, sys\nsys.path.insert(1, os.path.dirname(__file__))\n"  # OpenCV's own first lines
    (tmp_path / "cv2" / "__init__.py").write_text(f"{bootstrap}raise ImportError({LIBRARY!r})\n")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | dict(PYTHONPATH=paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    kind, path, there, sentence = ran.stdout.splitlines()
    assert kind == "_NoOpenCV"
    assert path == "[]"  # where its `typing` would hide the standard library's from processes that we start
    assert there == "not there"  # for the host, who may ask
    assert sentence == "cv2.imread needs OpenCV, which does not load here: pip install opencv-python-headless"
