// The page: which sample, which head, which tokens; panels beside each other follow the same choices.

const about = JSON.parse(document.getElementById("about").textContent);
const state = { file: 0, layer: 0, head: 0, term: "attention", opacity: 0.6, tapTarget: "query" };
let panels = [];
readColors(about.colors);

const actions = {
  head(layer, head) {
    Object.assign(state, { layer, head });
    panels.forEach((panel) => { panel.markHead(); panel.drawHead(); });
  },
  token(from, who, token) {
    for (const panel of panels) {
      panel.set(who, panel === from ? token : matchingToken(from, token, panel));
      if (who === "query") { panel.drawHead(); panel.drawGrid(); } else { panel.drawMaps(); panel.drawMoments(); panel.read(); }
    }
  },
  show(term) {
    state.term = term;
    panels.forEach((panel) => panel.drawMaps());
  },
  moment(share) {
    panels.forEach((panel) => { panel.goTo(share); panel.drawMaps(); panel.drawMoments(); panel.drawGrid(); });
  },
};

// The token of another panel that is where this one is: the same, or the nearest in a view that is cut otherwise.
function matchingToken(from, token, panel) {
  if (token < from.prefix || from.data.count - from.prefix === panel.data.count - panel.prefix) {
    const place = token - from.prefix;
    return place >= 0 ? place + panel.prefix : token < panel.prefix ? token : panel.middle();
  }
  return panel.nearest(from.shares(token));
}

function openFile(file) {
  panels.forEach((panel) => panel.view.gl && panel.view.gl.getExtension("WEBGL_lose_context")?.loseContext());
  state.file = file;
  files.show(file);
  panels = about.files[file].sides.map((data) => new Panel(data, state, actions));
  shownPanels.replaceChildren(...panels.map((panel) => panel.section));
  shownPanels.className = panels.length > 1 ? "panels two" : "panels";
  document.title = heading.textContent = `Where it looks: ${about.files[file].name}`;
  if (document.readyState !== "loading") drawAll();
}

async function drawAll() {
  const own = panels;
  await Promise.all(panels.map((panel) => panel.view.ready));
  for (const panel of own) {
    if (panel === panels[own.indexOf(panel)]) { panel.drawHead(); panel.drawGrid(); }
  }
}

const heading = make("h1");
const files = choice("samples", about.files.map((file) => file.name), openFile);
const tapChoice = choice("a tap chooses", ["who looks", "whom it looks at"], (i) => { state.tapTarget = ["query", "key"][i]; tapChoice.show(i); });
const opacitySlider = make("input", { type: "range", min: "0", max: "100", value: String(100 * state.opacity), oninput: () => {
  state.opacity = opacitySlider.value / 100;
  panels.forEach((panel) => panel.drawMaps());
} });
const shownPanels = make("div", { class: "panels" });
const help = make("details", { class: "help" }, make("summary", {}, "How to read it"), ...[
  "A token looks (the solid frame; in a cloud the red point) and takes of every other token a share: its attention. Tap or click the picture to choose another one, or the buttons above it for tokens that are not drawn, such as the class token.",
  "The maps say why. Terms add up to the logits, whose softmax is the attention. Orange draws attention to a token, blue takes it away; dark gray is never seen. Choose a map to lay it over the picture.",
  "In a video or a stream of events the maps are of the moment that the slider shows; where a place has no token then, of the one nearest in time.",
  "Colors of attention go with the root of the share, from 0 to the largest in the map, to show what is faint.",
  "The table has the numbers of one pair: point at a token, or let a tap choose whom it looks at (the dashed frame; in a cloud the gray point).",
  "Keys: arrows move who looks, with Shift whom it looks at; among heads they choose another head. Comma and full stop go through the moments; A, D, W, S turn a cloud, + and − bring it closer, as dragging and pinching do.",
].map((text) => make("p", {}, text)));

document.getElementById("explorer").replaceChildren(
  make("header", { class: "top" }, heading, about.files.length > 1 ? files.row : "",
    make("div", { class: "tools" }, make("span", { class: "tool" }, "A tap chooses ", tapChoice.row), make("label", { class: "tool" }, "Colors over it ", opacitySlider)), help),
  shownPanels);
tapChoice.show(0);
requestAnimationFrame(() => setTimeout(() => openFile(0))); // once this is to be seen
document.addEventListener("DOMContentLoaded", () => panels.length && drawAll());
globalThis.explorer = { about, state, actions, panels: () => panels };
