// Elements of the page. Texts become text nodes and attributes, never markup.

function make(tag, options = {}, ...inner) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (name === "class") found.className = value;
    else if (value === true) found.setAttribute(name, "");
    else if (value !== false && value !== undefined) found.setAttribute(name, value);
  }
  found.append(...inner);
  return found;
}

// A canvas of so many pixels, and what draws on it.
function createCanvas(width, height, options = {}) {
  const canvas = make("canvas", options);
  canvas.width = Math.max(1, Math.round(width));
  canvas.height = Math.max(1, Math.round(height));
  return canvas;
}

// A row of buttons of which one is pressed; choose(i) gets its index.
function choice(label, names, choose) {
  const buttons = names.map((name, i) => make("button", { type: "button", onclick: () => choose(i) }, name));
  const row = make("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  return { row, show: (chosen) => buttons.forEach((one, i) => one.setAttribute("aria-pressed", String(i === chosen))) };
}

function legend(kind) {
  const bar = createCanvas(256, 1, { class: "bar", "aria-hidden": "true" }), pen = bar.getContext("2d");
  shades[kind].forEach((color, i) => { pen.fillStyle = color; pen.fillRect(i, 0, 1, 1); });
  const ticks = [make("span"), make("span"), make("span")];
  const show = (scale) => ticksOf(scale).forEach((text, i) => { ticks[i].textContent = text; });
  return { element: make("div", { class: "legend" }, bar, make("div", { class: "ticks" }, ...ticks)), show };
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// Of places [x, y] (null: not there) the nearest from one of them in a direction, or itself.
function nearestInDirection(places, from, [dx, dy]) {
  let best = from, least = Infinity;
  const start = places[from];
  places.forEach((place, i) => {
    if (!place || i === from) return;
    const x = place[0] - start[0], y = place[1] - start[1];
    const along = x * dx + y * dy, across = Math.abs(x * dy) + Math.abs(y * dx);
    if (along > 1e-6 && across <= along * 1.001 && along + 2 * across < least) { least = along + 2 * across; best = i; }
  });
  return best;
}
