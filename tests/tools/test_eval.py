"""tools/eval.py coco: the metrics, and one sentence for each fault of the files."""

import json
import re

import pytest

from tests import programs
from tools import eval as tool

TRUTH = dict(
    images=[dict(id=1), dict(id=2)],
    categories=[dict(id=3, name="cat"), dict(id=18, name="dog")],
    annotations=[
        dict(id=1, image_id=1, category_id=18, bbox=[0, 0, 40, 40], area=1600, iscrowd=0),
        dict(id=2, image_id=2, category_id=3, bbox=[5, 5, 10, 10], area=80, iscrowd=0),
    ],
)
FOUND = [dict(image_id=1, category_id=18, bbox=[0, 0, 40, 40], score=0.9)]


@pytest.fixture
def files(tmp_path):
    """Return a function that writes two files, texts unchanged, and returns the arguments."""

    def write(truth, found):
        for name, content in (("gt.json", truth), ("found.json", found)):
            (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return ["coco", str(tmp_path / "gt.json"), str(tmp_path / "found.json")]

    return write


@pytest.fixture
def run(files, capsys):
    """Return a function that evaluates two contents and returns the printed numbers."""

    def start(truth, found, *options):
        tool.main([*files(truth, found), *options])
        return json.loads(capsys.readouterr().out)

    return start


def test_the_twelve_under_their_usual_names(run, tmp_path):
    numbers = run(TRUTH, FOUND, "--out", str(tmp_path / "new" / "x.json"))
    twelve = ["AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"]
    assert list(numbers) == [*twelve, "F1", "F1_threshold"]
    assert numbers["AP"] == pytest.approx(0.5)
    assert (numbers["APm"], numbers["APl"]) == (pytest.approx(1), -1)
    assert json.loads((tmp_path / "new" / "x.json").read_text()) == numbers


def test_classes_and_pictures(run, tmp_path):
    numbers = run(TRUTH, FOUND, "--classwise", "--pictures", str(tmp_path / "views"))
    assert {name: row["AP"] for name, row in numbers["classes"].items()} == dict(cat=0, dog=pytest.approx(1))
    assert (tmp_path / "views" / "pr_curves.png").exists()


def test_no_detections_is_worth_0_and_no_truth_does_not_crash(run):
    assert run(TRUTH, [])["AP"] == 0
    assert run(TRUTH | dict(annotations=[]), FOUND)["AP"] == -1
    assert run(TRUTH | dict(annotations=[]), [], "--classwise")["AP"] == -1


def test_sizes_of_zero_and_boxes_beyond_the_image_are_taken_as_they_are(run):
    odd = [dict(FOUND[0], bbox=[-9, -9, 0, 0]), dict(FOUND[0], bbox=[1e6, 0, 5, 5]), *FOUND]
    truth = TRUTH | dict(annotations=[*TRUTH["annotations"], dict(id=9, image_id=1, category_id=3, bbox=[5, 5, 0, 1])])
    assert run(truth, odd)["AR100"] == pytest.approx(0.5)


def without(item, key):
    return {k: v for k, v in item.items() if k != key}


A = TRUTH["annotations"]
WRONG = {
    "swapped": (FOUND, TRUTH, "holds a list, but ground truth is an object: did the two files change places"),
    "an object": (TRUTH, TRUTH, "holds an object, but detections are a list"),
    "a number": (TRUTH, "3", "holds the value 3"),
    "not json": ("{", FOUND, "is not JSON"),
    "no categories": (without(TRUTH, "categories"), FOUND, "has no list 'categories'"),
    "image twice": (TRUTH | dict(images=[dict(id=1), dict(id=1)]), FOUND, "two of image id 1"),
    "category twice": (TRUTH | dict(categories=[dict(id=3), dict(id=3)]), FOUND, "two of category id 3"),
    "annotation twice": (TRUTH | dict(annotations=[A[0], A[0]]), FOUND, "two of annotation id 1"),
    "no id": (TRUTH | dict(images=[dict(file_name="a.jpg")]), FOUND, "image 0 of .* has no 'id'"),
    "ids of two kinds": (TRUTH | dict(images=[dict(id=1), dict(id="2")]), FOUND, "make them one kind"),
    "truth elsewhere": (TRUTH | dict(annotations=[dict(A[0], image_id=9)]), FOUND, "annotation 0 .* is of image 9"),
    "image elsewhere": (TRUTH, [*FOUND, dict(FOUND[0], image_id=5)], "detection 1 .* of image 5, .* has 2, 1 to 2"),
    "label as id": (TRUTH, [dict(FOUND[0], category_id=1)], "of category 1, .* were labels meant as ids"),
    "an odd id": (TRUTH, [dict(FOUND[0], category_id=[3])], r"of category \[3\]"),
    "no score": (TRUTH, [without(FOUND[0], "score")], "detection 0 .* has no 'score'"),
    "no box": (TRUTH, [without(FOUND[0], "bbox")], "detection 0 .* has no bbox"),
    "no object": (TRUTH, [[1, 2]], "has no image_id and no category_id and no bbox"),
    "three sides": (TRUTH, [*FOUND, dict(FOUND[0], bbox=[1, 2, 3])], r"detection 1 .* the bbox \[1, 2, 3\]"),
    "a text": (TRUTH, [dict(FOUND[0], score="high")], "has the score 'high': it takes a finite number"),
    "not a number": (TRUTH, [dict(FOUND[0], score=float("nan"))], "has the score nan"),
    "negative": (TRUTH, [dict(FOUND[0], bbox=[5, 5, -2, 4])], "negative size -2 x 4"),
    "area": (TRUTH | dict(annotations=[dict(A[0], area=None)]), FOUND, "annotation 0 .* has the area None"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_sentence(files, case):
    *contents, sentence = WRONG[case]
    assert re.search(sentence, programs.refusal(tool.main, *files(*contents)))


def test_files_and_names_that_do_not_work_are_one_sentence(files, tmp_path):
    good = files(TRUTH, FOUND)
    assert "ends in .json, got" in programs.refusal(tool.main, *good, "--out", tmp_path / "x.csv")
    assert "none.json" in programs.refusal(tool.main, "coco", tmp_path / "none.json", tmp_path)
    assert "is a folder, and a file was expected" in programs.refusal(tool.main, *good[:2], tmp_path)
