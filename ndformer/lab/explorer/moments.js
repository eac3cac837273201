// Pictures and the boxes of tokens in them: images, videos, streams of events.

class MomentsView {
  constructor(data) {
    Object.assign(this, data);
    this.boxes = arrayOf(data.boxes, "i4");
    this.count = this.boxes.length / 6;
    this.moment = 0;
    this.pictures = data.pictures.map((url) => { const one = new Image(); one.src = url; return one; });
    this.ready = Promise.all(this.pictures.map((one) => one.decode().catch(() => {})));
    this.times = Math.max(1, Math.ceil(720 / Math.max(this.width, this.height)));
    this.canvas = createCanvas(this.width * this.times, this.height * this.times);
    this.aspect = this.height / this.width;
  }

  get moments() { return this.pictures.length; }
  box(token) { return this.boxes.subarray(6 * token, 6 * token + 6); }
  isVisible(token) { const box = this.box(token); return box[0] <= this.moment && this.moment < box[1]; }
  momentOf(token) { return this.isVisible(token) ? this.moment : this.box(token)[0]; }

  // Boxes of tokens in the colors of values, on so many pixels
  paint(tokens, pen, width, height, values, scale) {
    const x = width / this.width, y = height / this.height;
    for (const token of tokens) {
      const [, , top, left, bottom, right] = this.box(token);
      const l = Math.round(left * x), t = Math.round(top * y);
      pen.fillStyle = scale.color(values[token]);
      pen.fillRect(l, t, Math.round(right * x) - l, Math.round(bottom * y) - t);
    }
  }

  get present() { return Array.from({ length: this.count }, (_, token) => token).filter((token) => this.isVisible(token)); }

  // Of tokens at one place the nearest in time, and the nearer over the farther: a map is full also where few are present
  get nearest() {
    if (this.nearestAt === this.moment) return this.nearestFound;
    const away = (token) => { const box = this.box(token); return Math.max(box[0] - this.moment, this.moment - box[1] + 1, 0); };
    const found = new Map();
    for (let token = 0; token < this.count; token++) {
      const place = this.box(token).subarray(2).join(), known = found.get(place);
      if (known === undefined || away(token) < away(known)) found.set(place, token);
    }
    this.nearestAt = this.moment;
    return (this.nearestFound = [...found.values()].sort((a, b) => away(b) - away(a)));
  }

  drawSmall(canvas, values, scale) {
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#e9ebee";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    this.paint(this.nearest, pen, canvas.width, canvas.height, values, scale);
  }

  drawLarge(values, scale, opacity, query, key) {
    const pen = this.canvas.getContext("2d"), { width, height } = this.canvas;
    pen.imageSmoothingEnabled = this.times === 1;
    pen.filter = `grayscale(${opacity})`; // so that colors over it are those of the scale
    pen.drawImage(this.pictures[this.moment], 0, 0, width, height);
    pen.filter = "none";
    pen.globalAlpha = opacity;
    this.paint(this.present, pen, width, height, values, scale);
    pen.globalAlpha = 1;
    this.ring(pen, key, [6, 5]);
    this.ring(pen, query, []);
  }

  ring(pen, token, dashes) {
    if (token === null || !this.isVisible(token)) return;
    const [, , top, left, bottom, right] = this.box(token), s = this.times;
    const wide = Math.max(2, this.canvas.width / 180);
    for (const [color, line] of [["#ffffff", 2 * wide], ["#111111", wide]]) {
      pen.strokeStyle = color;
      pen.lineWidth = line;
      pen.setLineDash(color === "#111111" ? dashes.map((n) => n * wide / 2) : []);
      pen.strokeRect(left * s, top * s, (right - left) * s, (bottom - top) * s);
    }
    pen.setLineDash([]);
  }

  pick(x, y) { // shares of the canvas
    let found = null;
    for (let token = 0; token < this.count; token++) {
      const [, , top, left, bottom, right] = this.box(token);
      const inside = x * this.width >= left && x * this.width < right && y * this.height >= top && y * this.height < bottom;
      if (inside && this.isVisible(token)) found = token;
    }
    return found;
  }

  step(token, direction) {
    const places = Array.from({ length: this.count }, (_, i) => {
      const [, , top, left, bottom, right] = this.box(i);
      return this.isVisible(i) || i === token ? [(left + right) / 2, (top + bottom) / 2] : null;
    });
    return nearestInDirection(places, token, direction);
  }

  // How much of the shares falls into each moment
  overTime(shares) {
    const found = new Float64Array(this.moments);
    shares.forEach((share, token) => {
      const [first, behind] = this.box(token);
      for (let moment = first; moment < behind; moment++) found[moment] += share / (behind - first);
    });
    return found;
  }
}
