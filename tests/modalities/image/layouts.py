"""Writers of detection sets in COCO's, VOC's and YOLO's formats, with black images unless a test writes its own."""

import json

from PIL import Image

SIZES = dict(a=(40, 30), b=(20, 50), c=(16, 16))  # width, height
BOXES = dict(a=[("cow", (4, 6, 24, 16)), ("ant", (0, 0, 10, 30))], b=[("cow", (5, 10, 15, 20))], c=[])
CLASSES = ["ant", "cow"]


def image(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path)
    return path


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def coco_content(objects=BOXES, ending="png", claims=None, **changes):
    """`claims` are the width and height that the file gives of each image, if any."""
    sizes = {name: dict(width=w, height=h) for name, (w, h) in (claims or {}).items()}
    ids = {label: 90 - 83 * i for i, label in enumerate({label: 0 for rows in objects.values() for label, _ in rows})}
    rows = [(i, *row) for i, name in enumerate(objects, 1) for row in objects[name]]
    annotations = [
        dict(id=n, image_id=i, category_id=ids[label], bbox=[x1, y1, x2 - x1, y2 - y1], area=50, iscrowd=0)
        for n, (i, label, (x1, y1, x2, y2)) in enumerate(rows, 1)
    ]
    images = [dict(id=i, file_name=f"{name}.{ending}", **sizes.get(name, {})) for i, name in enumerate(objects, 1)]
    categories = [dict(id=i, name=label) for label, i in ids.items()]
    return dict(images=images, categories=categories, annotations=annotations) | changes


def coco(root, split="train", sizes=SIZES, **content):
    for name, size in sizes.items():
        image(root / f"{split}2017" / f"{name}.png", size)
    text(root / "annotations" / f"instances_{split}2017.json", json.dumps(coco_content(**content)))


def voc(root, split="train", sizes=SIZES, objects=BOXES, claims=None):
    for name, size in sizes.items():
        image(root / "JPEGImages" / f"{name}.png", size)
    for name, rows in objects.items():
        size = "<size><width>{}</width><height>{}</height></size>".format(*claims[name]) if claims else ""
        found = "".join(
            f"<object><name>{label}</name><bndbox><xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin><xmax>{x2}</xmax>"
            f"<ymax>{y2}</ymax></bndbox></object>"
            for label, (x1, y1, x2, y2) in rows
        )
        text(root / "Annotations" / f"{name}.xml", f"<annotation>{size}{found}</annotation>")
    text(root / "ImageSets" / "Main" / f"{split}.txt", "".join(f"{name}\n" for name in objects))


def yolo(root, split="train", sizes=SIZES, objects=BOXES, claims=SIZES, classes=CLASSES):
    """`claims` are the sizes by which boxes are divided."""
    for name, size in sizes.items():
        image(root / "images" / split / f"{name}.png", size)
    for name, rows in objects.items():
        w, h = claims[name]
        lines = [
            f"{classes.index(label)} {(x1 + x2) / 2 / w} {(y1 + y2) / 2 / h} {(x2 - x1) / w} {(y2 - y1) / h}\n"
            for label, (x1, y1, x2, y2) in rows
        ]
        if lines:
            text(root / "labels" / split / f"{name}.txt", "".join(lines))
    text(root / "data.yaml", f"names: [{', '.join(classes)}]\n")
