// What mouse, fingers and keys do to a panel's scene: choose tokens, turn a cloud.

const TURNS = { a: [-0.05, 0], d: [0.05, 0], w: [0, -0.05], s: [0, 0.05] };

function hear(panel) {
  const { stage, scene } = panel, fingers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = scene.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  };
  const picked = (event) => {
    const found = scene.pick(...at(event));
    return found === null ? null : found + panel.prefix;
  };
  const turned = () => panel.drawMaps();

  stage.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, at(event));
    moved = fingers.size > 1 ? 1 : 0;
    if (scene.rotate) stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    const was = fingers.get(event.pointerId), now = at(event);
    if (was && scene.rotate) {
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const way = [now[0] - was[0], now[1] - was[1]];
      moved += Math.hypot(...way);
      fingers.set(event.pointerId, now);
      if (moved < 0.01) return;
      if (others.length) scene.closer(apart(now, others[0]) / Math.max(1e-3, apart(was, others[0])));
      else scene.rotate(...way);
      turned();
    } else if (!was && event.pointerType === "mouse") {
      const found = picked(event);
      if (found !== null && found !== panel.key) panel.choose(found, "key");
    }
  });
  const up = (event) => {
    const pressed = fingers.delete(event.pointerId);
    if (pressed && event.type === "pointerup" && moved < 0.01) panel.choose(picked(event));
    else if (pressed && scene.rotate) panel.drawGrid();
  };
  stage.addEventListener("pointerup", up);
  stage.addEventListener("pointercancel", up);

  stage.addEventListener("keydown", (event) => {
    const way = ARROWS[event.key], turn = scene.rotate && TURNS[event.key], moments = { ",": -1, ".": 1 }[event.key];
    if (way) {
      const who = event.shiftKey ? "key" : "query", from = panel.inScene(panel[who]);
      panel.choose(from === null ? panel.middle() : scene.step(from, way) + panel.prefix, who);
    } else if (turn || (scene.closer && "+-".includes(event.key))) {
      turn ? scene.rotate(...turn) : scene.closer(event.key === "+" ? 1.1 : 1 / 1.1);
      turned();
      panel.drawGrid();
    } else if (moments && scene.moments > 1) {
      const next = Math.min(scene.moments - 1, Math.max(0, scene.moment + moments));
      panel.tell.moment(next / (scene.moments - 1));
    } else return;
    event.preventDefault();
  });
  if (scene.closer) stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    scene.closer(Math.exp(-event.deltaY / 600));
    turned();
    clearTimeout(panel.rest);
    panel.rest = setTimeout(() => panel.drawGrid(), 150);
  }, { passive: false });
}

const apart = ([a, b], [c, d]) => Math.hypot(a - c, b - d);
