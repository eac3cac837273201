// What mouse, fingers and keys do to a panel's view: choose tokens, turn a cloud.

const TURNS = { a: [-0.05, 0], d: [0.05, 0], w: [0, -0.05], s: [0, 0.05] };

function addListeners(panel) {
  const { stage, view } = panel, fingers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = view.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const picked = (event) => {
    const found = view.pick(...at(event));
    return found === null ? null : found + panel.prefix;
  };
  const turned = () => panel.drawMaps();

  stage.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, at(event));
    moved = fingers.size > 1 ? 1 : 0;
    if (view.rotate) stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    const was = fingers.get(event.pointerId), now = at(event);
    if (was && view.rotate) {
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const direction = [now[0] - was[0], now[1] - was[1]];
      moved += Math.hypot(...direction);
      fingers.set(event.pointerId, now);
      if (moved < 0.01) return;
      if (others.length) view.zoomBy(distance(now, others[0]) / Math.max(1e-3, distance(was, others[0])));
      else view.rotate(...direction);
      turned();
    } else if (!was && event.pointerType === "mouse") {
      const found = picked(event);
      if (found !== null && found !== panel.key) panel.choose(found, "key");
    }
  });
  const up = (event) => {
    const pressed = fingers.delete(event.pointerId);
    if (pressed && event.type === "pointerup" && moved < 0.01) panel.choose(picked(event));
    else if (pressed && view.rotate) panel.drawGrid();
  };
  stage.addEventListener("pointerup", up);
  stage.addEventListener("pointercancel", up);

  stage.addEventListener("keydown", (event) => {
    const direction = ARROWS[event.key], turn = view.rotate && TURNS[event.key], moments = { ",": -1, ".": 1 }[event.key];
    if (direction) {
      const who = event.shiftKey ? "key" : "query", from = panel.inView(panel[who]);
      panel.choose(from === null ? panel.middle() : view.step(from, direction) + panel.prefix, who);
    } else if (turn || (view.zoomBy && "+-".includes(event.key))) {
      turn ? view.rotate(...turn) : view.zoomBy(event.key === "+" ? 1.1 : 1 / 1.1);
      turned();
      panel.drawGrid();
    } else if (moments && view.moments > 1) {
      const next = Math.min(view.moments - 1, Math.max(0, view.moment + moments));
      panel.actions.moment(next / (view.moments - 1));
    } else return;
    event.preventDefault();
  });
  if (view.zoomBy) stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.zoomBy(Math.exp(-event.deltaY / 600));
    turned();
    clearTimeout(panel.redrawTimer);
    panel.redrawTimer = setTimeout(() => panel.drawGrid(), 150);
  }, { passive: false });
}

const distance = ([a, b], [c, d]) => Math.hypot(a - c, b - d);
