"""The explorer in a real browser: what it computes, what clicks, keys and fingers change, what it never does."""

import numpy as np
import pytest
import torch

from tests.explored import KINDS, SMALL, page_of, run_of, write_files

pytestmark = pytest.mark.slow  # a browser is not part of make test
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&"
TERMS = """([layer, head, query]) => {
  const look = explorer.panels()[0].layers[layer].evaluate(head, query);
  const plain = ([name, values]) => [name, Array.from(values, String)];
  return Object.fromEntries([...look.terms.map(plain), plain(["attention", look.attention])]);
}"""
PIXELS = "(canvas) => canvas.toDataURL()"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("explored"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory, home):
    """By modality: a run, its file and its page."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    for kind, (config, name) in KINDS.items():
        run = run_of(folder, config)
        page_of(run, home / name, out=folder / f"{kind}.html")
        found[kind] = run, home / name, folder / f"{kind}.html"
    return found


def same(tab, looks, queries):
    """What the page computes is what attention.logits(parts=True) says."""
    for number, expected in enumerate(looks):
        for query in queries:
            found = {
                name: np.array(values, float) for name, values in tab.page.evaluate(TERMS, [number, 1, query]).items()
            }
            shares = found.pop("attention")
            assert list(found) == list(expected)
            for name, values in expected.items():
                np.testing.assert_allclose(found[name], values[1, query], rtol=1e-5, atol=1e-3, err_msg=name)
            whole = torch.stack([values[1, query] for values in expected.values()]).sum(0).softmax(-1)
            np.testing.assert_allclose(shares, whole, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_its_numbers_are_those_of_the_model(kind, pages, tab):
    run, file, page = pages[kind]
    tab.open(page)
    tab.drawn()
    looks = run.looks(file)
    same(tab, looks, [0, 3, len(looks[0]["semantic"][0]) - 1])
    assert (tab.errors, tab.left) == ([], [])


@pytest.mark.parametrize("encoding", ["RoPEMixed", "ALiBi", "RelativeBias(reach=3)", "CoPE", "LookHere"])
def test_so_are_those_of_other_encodings(encoding, home, tmp_path, tab):
    run = run_of(tmp_path, "cifar10_pape.py", encoding=encoding)
    page_of(run, home / "photo.png", out=tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    tab.drawn()
    same(tab, run.looks(home / "photo.png"), [0, 1, 40])
    if encoding == "RoPEMixed":
        inner = tab.page.evaluate(
            "() => { const l = explorer.panels()[0].layers[0].evaluate(0, 9); "
            "return Array.from(l.terms[0][1], (x, j) => x - l.inner[0][1][j] - l.inner[1][1][j]) }"
        )
        assert max(map(abs, inner)) < 1e-9
    assert tab.errors == []


def shown_number(tab, name):
    text = (
        tab.page.locator(".readout tr", has=tab.page.get_by_role("rowheader", name=name, exact=True))
        .locator("td")
        .inner_text()
    )
    return float(text.replace("−", "-"))


def test_a_click_changes_the_pictures_and_the_numbers(pages, tab):
    run, file, page = pages["image"]
    tab.open(page)
    tab.drawn()
    large, card, head = (tab.page.locator(where).first for where in (".stage canvas", ".card canvas", ".head canvas"))
    before = [one.evaluate(PIXELS) for one in (large, card, head)]
    size = large.bounding_box()
    large.click(position=dict(x=size["width"] * 2.5 / 8, y=size["height"] * 5.5 / 8))  # patch (5, 2) of 8 x 8
    tab.page.wait_for_function("document.querySelector('section').dataset.drawn === '43'")
    assert all(one.evaluate(PIXELS) != was for one, was in zip((large, card, head), before))
    large.hover(position=dict(x=size["width"] * 0.5 / 8, y=size["height"] * 0.5 / 8))  # patch (0, 0)
    assert tab.page.locator(".readout p").inner_text() == "row 5, column 2 looks at row 0, column 0"
    terms = run.looks(file)[0]
    for name in ("semantic", "distance", "direction"):
        assert shown_number(tab, name) == pytest.approx(float(terms[name][0, 43, 1]), abs=1e-3)
    assert shown_number(tab, "logits") == pytest.approx(float(sum(one[0, 43, 1] for one in terms.values())), abs=1e-3)
    tab.page.get_by_role("button", name="layer 2, head 2").click()
    terms = run.looks(file)[1]
    assert shown_number(tab, "distance") == pytest.approx(float(terms["distance"][1, 43, 1]), abs=1e-3)
    was = large.evaluate(PIXELS)
    tab.page.locator(".card", has_text="distance").click()
    assert large.evaluate(PIXELS) != was
    tab.page.get_by_role("button", name="class token").click()
    assert shown_number(tab, "distance") == 0
    assert tab.errors == []


def test_keys_do_what_clicks_do(pages, tab):
    tab.open(pages["image"][2])
    tab.drawn()
    tab.page.evaluate("explorer.panels()[0].choose(43, 'query')")
    tab.page.locator(".stage").focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowUp")
    tab.page.keyboard.press("Shift+ArrowDown")
    assert tab.page.evaluate("explorer.panels()[0].query") == 43 + 1 - 8
    assert tab.page.locator(".readout p").inner_text().startswith("row 4, column 3 looks at")
    tab.page.get_by_role("button", name="layer 1, head 1").focus()
    tab.page.keyboard.press("ArrowDown")
    assert tab.page.evaluate("[explorer.state.layer, explorer.state.head]") == [1, 0]
    assert tab.errors == []


def test_a_video_is_scrubbed(pages, tab):
    tab.open(pages["video"][2])
    tab.drawn()
    large = tab.page.locator(".stage canvas")
    before = large.evaluate(PIXELS), tab.page.locator(".caption").inner_text()
    tab.page.locator(".scrubber input").focus()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("ArrowLeft")
    assert large.evaluate(PIXELS) != before[0]
    assert tab.page.locator(".caption").inner_text() != before[1]
    tab.page.locator(".strip").click(position=dict(x=3, y=10))
    assert tab.page.evaluate("explorer.panels()[0].view.moment") == 0
    assert tab.errors == []


def test_a_cloud_is_turned_and_tapped(pages, tab):
    tab.open(pages["cloud"][2])
    tab.drawn()
    assert tab.page.evaluate("!!explorer.panels()[0].view.gl"), "no WebGL: points were drawn without"
    large, card = tab.page.locator(".stage canvas"), tab.page.locator(".card canvas").first
    before, size = [one.evaluate(PIXELS) for one in (large, card)], large.bounding_box()
    middle = size["x"] + size["width"] / 2, size["y"] + size["height"] / 2
    tab.page.mouse.move(*middle)
    tab.page.mouse.down()
    tab.page.mouse.move(middle[0] + 90, middle[1] + 40, steps=4)
    tab.page.mouse.up()
    assert all(one.evaluate(PIXELS) != was for one, was in zip((large, card), before))
    token = tab.page.evaluate("explorer.panels()[0].query")  # turning chooses nobody
    x, y, other = tab.page.evaluate("""() => {
      const view = explorer.panels()[0].view;
      const [x, y, , token] = view.farFirst.at(-1);
      return [x, y, token];
    }""")
    large.click(position=dict(x=x * size["width"], y=y * size["height"]))
    assert tab.page.evaluate("explorer.panels()[0].query") == other != token
    assert tab.errors == []


def test_fingers_and_a_small_screen_are_enough(pages, phone):
    phone.open(pages["events"][2])
    phone.drawn()
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    box = phone.page.evaluate("""() => {
      const { view } = explorer.panels()[0], token = view.present[0], box = view.box(token);
      const { left, top, width, height } = view.canvas.getBoundingClientRect();
      const x = (box[3] + box[5]) / 2 / view.width, y = (box[2] + box[4]) / 2 / view.height;
      return [left + x * width, top + y * height, token];
    }""")
    phone.page.get_by_role("button", name="class token").tap()
    phone.page.touchscreen.tap(box[0], box[1])
    assert phone.page.evaluate("explorer.panels()[0].query") == box[2] + 1
    phone.page.get_by_role("button", name="whom it looks at").tap()
    phone.page.touchscreen.tap(box[0], box[1])
    assert phone.page.evaluate("[explorer.panels()[0].query, explorer.panels()[0].key]") == [box[2] + 1] * 2
    assert phone.errors == []


def test_two_models_follow_one_choice(pages, home, tmp_path, tab):
    run = pages["image"][0]
    other = run_of(tmp_path, "cifar10_pape.py", [one for one in SMALL if "drop" not in one], encoding="AxialRoPE")
    config = tmp_path / "configs" / "rope.py"  # beside weights it would not be run
    config.parent.mkdir()
    lines = """_base_ = ["_base_/cifar10.py"]
model = dict(backbone=dict(encoding=dict(type="AxialRoPE")))
sample = dict(model=dict(backbone=dict(depth=2, dim=32, heads=2)))
"""
    config.write_text(lines)
    page_of(run, home / "photo.png", out=tmp_path / "page.html", more=["--beside", str(config), str(other.path)])
    tab.open(tmp_path / "page.html")
    tab.drawn()
    assert tab.page.locator("section").count() == 2
    tab.page.evaluate("explorer.panels()[1].choose(20, 'query')")
    assert tab.page.evaluate("explorer.panels().map((one) => one.query)") == [20, 20]
    assert tab.page.locator(".card .title", has_text="unturned").count() == 1  # of the rotary one
    assert (tab.errors, tab.left) == ([], [])


def test_names_run_nothing(home, tmp_path, tab):
    run = run_of(tmp_path, "cifar10_pape.py", classes=[HOSTILE] * 10)
    file = tmp_path / "<img src=x onerror=alert(1)>.png"
    file.write_bytes((home / "photo.png").read_bytes())
    page_of(run, file, out=tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    tab.drawn()
    assert tab.page.locator("h1").inner_text() == f"Where it looks: {file.name}"
    assert HOSTILE in tab.page.locator(".panel header .note").inner_text()
    assert tab.page.locator("img").count() == 0
    assert (tab.errors, tab.left) == ([], [])


def test_what_would_ask_for_something_is_stopped(pages, tab):
    """The policy holds, also for code that should not be there."""
    tab.open(pages["image"][2])
    tab.drawn()
    asked = tab.page.evaluate("fetch('https://example.org/').then(() => 'answered', () => 'stopped')")
    assert asked == "stopped"
    assert (
        tab.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'globalThis.ran = 1'; "
            "document.body.append(s); return globalThis.ran ?? 0 }"
        )
        == 0
    )


@pytest.mark.parametrize("encoding", ["PaPE(m=50)", "RoPEMixed"])
def test_a_vit_s_is_seen_at_once(encoding, home, tmp_path, tab):
    """At 224 pixels, all 12 layers: under 12 MB, and painted within 2 s."""
    run = run_of(tmp_path, "imagenet1k_pape.py", LARGE, encoding, sample=False)
    page_of(run, home / "photo.png", out=tmp_path / "page.html")
    size = (tmp_path / "page.html").stat().st_size
    assert size < 12e6
    tab.open(tmp_path / "page.html")
    tab.drawn()
    painted = tab.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    drawn = tab.page.evaluate("performance.now()")
    print(f"{size / 1e6:.1f} MB, first paint {painted:.0f} ms, all heads {drawn:.0f} ms")
    assert painted < 2000
    assert tab.page.locator(".head").count() == 12 * 6
    same(tab, run.looks(home / "photo.png")[:1], [0, 100])
    assert (tab.errors, tab.left) == ([], [])


LARGE = ["model.backbone.dim=384", "model.backbone.depth=12", "model.backbone.heads=6", "model.backbone.drop_path=0.0"]
