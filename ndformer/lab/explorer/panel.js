// One model and one sample: the view, why a head looks where it looks, and all heads.

const HINTS = {
  semantic: "what the query looks for: q·k",
  distance: "how far it looks",
  direction: "to which side it looks",
  cone: "what a head may see",
  table: "a learned value for each step",
  relative: "what the query makes of each step",
  count: "what the query makes of tokens counted in between",
  unlikeness: "how unlike the two tokens' lines are",
  logits: "the sum of the terms",
  attention: "the softmax of the sum, over all tokens",
  unturned: "of semantic: q·k before the encoding turns them",
  turn: "of semantic: what the turn adds",
};
const MAP = 300, HEAD = 96; // pixels of maps

class Panel {
  constructor(data, state, actions) {
    Object.assign(this, { data, state, actions, prefix: data.prefix.length });
    this.view = data.view.kind === "cloud" ? new CloudView(data.view) : new MomentsView(data.view);
    this.positions = arrayOf(data.positions, "f4");
    this.layers = data.layers.map((layer, i) => new Layer(layer, data.numbers[i], data.count));
    this.key = null;
    this.set("query", this.middle());
    this.cards = new Map();
    this.section = this.build();
  }

  get layer() { return this.layers[Math.min(this.state.layer, this.layers.length - 1)]; }
  get head() { return Math.min(this.state.head, this.layer.heads - 1); }
  inView(token) { return token === null || token < this.prefix ? null : token - this.prefix; }

  // Where tokens are in the extent of all of them, from 0 to 1 along each axis
  shares(token) {
    const { dims, count } = this.data, at = (i, p) => this.positions[i * dims + p];
    if (!this.edges) {
      const each = (p) => Array.from({ length: count - this.prefix }, (_, i) => at(this.prefix + i, p));
      this.edges = Array.from({ length: dims }, (_, p) => [Math.min(...each(p)), Math.max(...each(p))]);
    }
    return this.edges.map(([low, high], p) => (at(token, p) - low) / (high - low || 1));
  }

  nearest(place) {
    let best = Math.min(this.prefix, this.data.count - 1), least = Infinity;
    for (let token = this.prefix; token < this.data.count; token++) {
      const away = Math.hypot(...this.shares(token).map((x, p) => x - place[p]));
      if (away < least) { least = away; best = token; }
    }
    return best;
  }

  middle() { return this.nearest(new Array(this.data.dims).fill(0.5)); }

  nameOf(token) {
    if (token < this.prefix) return this.data.prefix[token];
    const { dims } = this.data, place = [...this.positions.subarray(token * dims, (token + 1) * dims)].map((x) => String(+x.toFixed(2)).replace("-", "−"));
    const name = (this.data.view.names || [])[token - this.prefix], at = place.map((x, i) => `${this.data.axes[i]} ${x}`).join(", ");
    return name ? `${name} (${at})` : at;
  }

  // ------------------------------------------------------------------------------------------------ what there is

  build() {
    const { data, view } = this;
    this.stage = make("div", {
      class: `stage ${data.view.kind}`, tabindex: "0", role: "application",
      "aria-label": "the sample: arrows choose the token that looks, with Shift the one looked at",
    }, view.canvas);
    addListeners(this);
    this.prefixes = choice("tokens that are not drawn", data.prefix, (i) => this.choose(i));
    this.maps = make("div", { class: "maps" });
    this.heading = make("h3");
    this.readout = make("div", { class: "readout", "aria-live": "polite" });
    this.grid = this.buildGrid();
    const left = make("div", { class: "left" }, this.prefix ? this.prefixes.row : "", this.stage, ...this.scrubber(), this.readout);
    const right = make("div", { class: "right" }, this.heading, this.maps, make("h3", {}, "Attention of all heads"),
      make("p", { class: "note" }, "Each map from 0 to its own largest share. Choose one to see why."), this.grid);
    for (const part of left.querySelectorAll(".stage, .scrubber")) part.style.maxWidth = `calc(var(--high) / ${view.aspect})`;
    return make("section", { class: "panel" },
      make("header", {}, make("h2", {}, data.model), make("p", { class: "note says" }, `${data.encoding} · predicts ${data.says}`)),
      make("div", { class: "columns" }, left, right));
  }

  scrubber() {
    if (this.view.moments < 2) return [];
    this.slider = make("input", { type: "range", min: "0", max: String(this.view.moments - 1), value: "0", "aria-label": "moment",
      oninput: () => this.actions.moment(Number(this.slider.value) / (this.view.moments - 1)) });
    this.caption = make("span", { class: "caption" });
    this.strip = createCanvas(480, 40, { class: "strip", role: "img" });
    this.strip.addEventListener("click", (event) => {
      const found = Math.floor((event.offsetX / this.strip.clientWidth) * this.view.moments);
      this.actions.moment(Math.min(found, this.view.moments - 1) / (this.view.moments - 1));
    });
    return [make("div", { class: "scrubber" }, this.strip, this.slider, this.caption)];
  }

  buildGrid() {
    this.buttons = this.layers.map((layer, l) => Array.from({ length: layer.heads }, (_, h) => {
      const canvas = createCanvas(HEAD, HEAD * this.view.aspect);
      const button = make("button", { type: "button", class: "head", onclick: () => this.actions.head(l, h) }, canvas);
      return Object.assign(button, { canvas });
    }));
    const most = Math.max(...this.layers.map((layer) => layer.heads));
    const grid = make("div", { class: "grid", role: "group", "aria-label": "heads: arrows choose one" });
    grid.style.gridTemplateColumns = `auto repeat(${most}, minmax(2.6rem, 7rem))`;
    grid.append(make("span"), ...Array.from({ length: most }, (_, h) => make("span", { class: "name" }, `head ${h + 1}`)));
    this.layers.forEach((layer, l) => {
      const rest = Array.from({ length: most - layer.heads }, () => make("span"));
      grid.append(make("span", { class: "name" }, `layer ${layer.number}`), ...this.buttons[l], ...rest);
    });
    grid.addEventListener("keydown", (event) => {
      const direction = ARROWS[event.key];
      if (!direction) return;
      event.preventDefault();
      const l = Math.min(this.layers.length - 1, Math.max(0, this.state.layer + direction[1]));
      const h = Math.min(this.layers[l].heads - 1, Math.max(0, this.head + direction[0]));
      this.actions.head(l, h);
      this.buttons[l][h].focus();
    });
    return make("div", { class: "scroll" }, grid);
  }

  card(name, kind) {
    if (!this.cards.has(name)) {
      const canvas = createCanvas(MAP, MAP * this.view.aspect), scale = legend(kind), value = make("b");
      const element = make("button", { type: "button", class: "card", onclick: () => this.actions.show(name) },
        make("span", { class: "title" }, make("span", {}, name), value), canvas, scale.element, make("span", { class: "note" }, HINTS[name] || ""));
      this.cards.set(name, { element, canvas, scale, value });
    }
    return this.cards.get(name);
  }

  // ------------------------------------------------------------------------------------------------ what is chosen

  choose(token, who = this.state.tapTarget) {
    if (token === null) return;
    this.actions.token(this, who, token);
  }

  set(who, token) {
    this[who] = token;
    const place = this.inView(token);
    if (place !== null) this.view.moment = this.view.momentOf(place);
  }

  goTo(share) { this.view.moment = Math.round(share * (this.view.moments - 1)); }

  // ------------------------------------------------------------------------------------------------ what is drawn

  // Maps of one head, in the order of the cards
  quantities() {
    const { terms, logits, attention, inner } = this.result;
    const sum = terms.length > 1 ? [["logits", logits, "signed"]] : [];
    return [...terms, ...inner].map(([name, values]) => [name, values, "signed"]).concat(sum, [["attention", attention, "share"]]);
  }

  drawHead() {
    this.result = this.layer.evaluate(this.head, this.query);
    this.heading.textContent = `Why it looks there: layer ${this.layer.number}, head ${this.head + 1}`;
    if (this.key === null) this.key = this.strongest();
    this.shares = [...this.result.attention.subarray(0, this.prefix)];
    [...this.prefixes.row.children].forEach((one, i) => { one.textContent = `${this.data.prefix[i]} ${percent(this.shares[i])}`; });
    this.prefixes.show(this.query < this.prefix ? this.query : -1);
    this.drawMaps();
    this.drawMoments();
    this.read();
  }

  strongest() { // of the others
    let best = this.query;
    for (let j = this.prefix; j < this.data.count; j++) {
      const more = best === this.query || this.result.attention[j] > this.result.attention[best];
      if (j !== this.query && more) best = j;
    }
    return best;
  }

  drawMaps() {
    const cards = this.quantities().map(([name, values, kind]) => {
      const card = this.card(name, kind), own = values.subarray(this.prefix), scale = scaleOf(own, kind);
      this.view.drawSmall(card.canvas, own, scale);
      card.scale.show(scale);
      card.element.setAttribute("aria-pressed", String(name === this.selectedTerm()));
      if (name === this.selectedTerm()) this.view.drawLarge(own, scale, this.state.opacity, this.inView(this.query), this.inView(this.key));
      return card.element;
    });
    if (cards.length !== this.maps.children.length || cards.some((one, i) => one !== this.maps.children[i])) this.maps.replaceChildren(...cards);
  }

  selectedTerm() { return this.quantities().some(([name]) => name === this.state.term) ? this.state.term : "attention"; }

  drawMoments() {
    if (!this.slider) return;
    const { view, strip } = this, pen = strip.getContext("2d");
    const found = view.overTime(this.result.attention.subarray(this.prefix)), largest = Math.max(...found) || 1;
    const wide = strip.width / view.moments;
    pen.clearRect(0, 0, strip.width, strip.height);
    found.forEach((share, i) => {
      const high = (share / largest) * (strip.height - 2);
      pen.fillStyle = i === view.moment ? "#b1430a" : "#9db4c9";
      pen.fillRect(i * wide + 1, strip.height - high, wide - 2, high);
    });
    this.slider.value = String(view.moment);
    const caption = `${view.captions[view.moment] || ""}: ${percent(found[view.moment])} of the attention`;
    this.caption.textContent = caption;
    strip.setAttribute("aria-label", `attention by moment; ${caption}`);
  }

  // The numbers of one pair of tokens
  read() {
    const { terms, logits, attention, inner } = this.result, j = this.key;
    const row = (name, value, kind) => make("tr", { class: kind }, make("th", { scope: "row" }, name), make("td", {}, value));
    const lines = terms.map(([name, values]) => row(name, number(values[j]), "term"));
    for (const [name, values] of inner) lines.push(row(name, values[j].toFixed(2).replace("-", "−"), "inner"));
    lines.push(row("logits", number(logits[j]), "sum"), row("attention", percent(attention[j]), "attention"));
    this.readout.replaceChildren(
      make("p", {}, make("b", {}, this.nameOf(this.query)), " looks at ", make("b", {}, this.nameOf(j))),
      make("table", {}, make("tbody", {}, ...lines)));
    for (const [name, values, kind] of this.quantities()) {
      this.card(name, kind).value.textContent = kind === "share" ? percent(values[j]) : short(values[j]);
    }
  }

  async drawGrid() {
    const round = (this.round = (this.round || 0) + 1);
    let since = performance.now();
    for (const [l, layer] of this.layers.entries()) {
      for (let h = 0; h < layer.heads; h++) {
        const button = this.buttons[l][h], values = layer.evaluate(h, this.query).attention.subarray(this.prefix);
        const scale = scaleOf(values, "share"), chosen = layer === this.layer && h === this.head;
        this.view.drawSmall(button.canvas, values, scale);
        button.setAttribute("aria-pressed", String(chosen));
        button.setAttribute("aria-label", `layer ${layer.number}, head ${h + 1}: at most ${percent(scale.limit)}`);
        button.title = button.getAttribute("aria-label");
        button.tabIndex = chosen ? 0 : -1;
      }
      if (performance.now() - since > 40) {
        await new Promise(requestAnimationFrame);
        since = performance.now();
        if (round !== this.round) return;
      }
    }
    this.section.dataset.drawn = `${this.query}`;
  }

  markHead() {
    this.buttons.forEach((row, l) => row.forEach((button, h) => {
      const chosen = this.layers[l] === this.layer && h === this.head;
      button.setAttribute("aria-pressed", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    }));
  }
}
