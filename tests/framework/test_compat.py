"""mmengine where OpenCV is installed and cannot load, as on servers without a display; tests/headless has the whole."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = "libGL.so.1: cannot open shared object file: No such file or directory"
CODE = """
import ndformer.framework.engine.training.trainer
import mmengine.visualization.visualizer as drawing
print(type(drawing.cv2).__name__)
try:
    import cv2
except ImportError:
    print("not there")
try:
    drawing.cv2.imread("x.png")
except ImportError as error:
    print(error)
"""


def test_without_libgl_the_engine_works_and_drawing_says_what_is_missing(tmp_path):
    (tmp_path / "cv2").mkdir()
    (tmp_path / "cv2" / "__init__.py").write_text(f"raise ImportError({LIBRARY!r})\n")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | dict(PYTHONPATH=paths),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    kind, there, sentence = ran.stdout.splitlines()
    assert kind == "_NoOpenCV"
    assert there == "not there"  # for the host, who may ask
    assert sentence == "cv2.imread needs OpenCV, which does not load here: pip install opencv-python-headless"
