// Points in space, to be turned: drawn by WebGL where there is one, else as discs on a plain canvas.

const VERTEX = `
attribute vec3 place; attribute vec3 color; attribute float pointScale;
uniform mat3 turn; uniform float zoom, size;
varying vec3 shade;
void main() {
  vec3 rotated = turn * place;
  gl_Position = vec4(rotated.xy * zoom, -rotated.z * 0.4, 1.0);
  gl_PointSize = size * (1.0 + 0.25 * rotated.z) * pointScale;
  shade = mix(vec3(0.98), color, 0.72 + 0.28 * (0.5 + 0.5 * rotated.z));
}`;
const FRAGMENT = `
precision mediump float; varying vec3 shade;
void main() {
  if (length(gl_PointCoord - 0.5) > 0.5) discard;
  gl_FragColor = vec4(shade, 1.0);
}`;
const NOTHING = [205, 208, 212]; // of points that are of no token

class CloudView {
  constructor(data) {
    this.points = arrayOf(data.points, "f4");
    this.token = arrayOf(data.token, "i4");
    this.centers = arrayOf(data.centers, "f4");
    this.count = this.centers.length / 3;
    this.sizes = data.sizes ? arrayOf(data.sizes, "f4") : new Float32Array(this.token.length).fill(1);
    this.tokenSizes = new Float32Array(this.count).fill(1);
    this.dots = []; // points of no token that belong to a drawing, such as those along the bonds of a molecule
    if (data.sizes) this.token.forEach((token, i) => { if (token < 0) this.dots.push(i); else this.tokenSizes[token] = this.sizes[i]; });
    this.largest = this.tokenSizes.reduce((a, b) => Math.max(a, b));
    this.aspect = 1;
    this.moments = 1;
    this.ready = Promise.resolve();
    const plane = this.centers.every((place, i) => i % 3 < 2 || place === this.centers[2]);
    const fit = data.sizes ? 0.8 : 0.95; // large points at the edge need room
    [this.yaw, this.pitch, this.zoom] = plane ? [0, 0, fit] : [0.65, 0.4, fit];
    this.canvas = createCanvas(900, 900);
    this.gl = this.canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    if (this.gl) this.begin();
  }

  momentOf() { return 0; }

  get turn() { // rows: right, up, towards the eye
    const [a, b, c, d] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return [a, 0, -b, -b * d, c, -a * d, b * c, d, a * c];
  }

  begin() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.DEPTH_TEST);
    gl.clearColor(0.98, 0.98, 0.98, 1);
    this.program = program;
    this.buffers = {};
    // the points, then the token that looks and the one looked at, larger
    const places = new Float32Array(this.points.length + 6);
    places.set(this.points);
    this.fill("place", this.drawn = places, 3, gl.FLOAT);
    this.pointScale = new Float32Array(places.length / 3);
    this.pointScale.set(this.sizes);
  }

  fill(name, values, width, kind) {
    const { gl } = this, at = gl.getAttribLocation(this.program, name);
    this.buffers[name] = this.buffers[name] || gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, width, kind, kind === gl.UNSIGNED_BYTE, 0, 0);
  }

  drawLarge(values, scale, opacity, query, key) {
    const shown = [query, key].map((token) => (token === null ? null : 3 * token));
    if (!this.gl) return this.drawSmall(this.canvas, values, scale, shown);
    const { gl } = this, count = this.token.length, bytes = shades[scale.kind].bytes;
    const colors = new Uint8Array(3 * (count + 2));
    for (let i = 0; i < count; i++) {
      const token = this.token[i], index = token < 0 ? -1 : scale.index(values[token]);
      for (let c = 0; c < 3; c++) {
        const own = token < 0 ? NOTHING[c] : index < 0 ? 60 : bytes[3 * index + c];
        colors[3 * i + c] = NOTHING[c] + (own - NOTHING[c]) * (0.5 + 0.5 * opacity);
      }
    }
    shown.forEach((at, mark) => {
      this.drawn.set(at === null ? [9, 9, 9] : this.centers.subarray(at, at + 3), 3 * (count + mark));
      colors.set(mark ? [110, 110, 110] : [214, 20, 90], 3 * (count + mark));
      this.pointScale[count + mark] = (mark ? 0.9 : 1.4) + (at === null ? 0 : this.tokenSizes[at / 3]);
    });
    this.fill("place", this.drawn, 3, gl.FLOAT);
    this.fill("color", colors, 3, gl.UNSIGNED_BYTE);
    this.fill("pointScale", this.pointScale, 1, gl.FLOAT);
    this.draw();
  }

  draw() {
    const { gl, program } = this, [a, b, c, d, e, f, g, h, i] = this.turn;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(gl.getUniformLocation(program, "turn"), false, [a, d, g, b, e, h, c, f, i]);
    gl.uniform1f(gl.getUniformLocation(program, "zoom"), this.zoom);
    gl.uniform1f(gl.getUniformLocation(program, "size"), Math.min(30, Math.max(4, 560 / Math.sqrt(this.token.length))) * this.zoom);
    gl.drawArrays(gl.POINTS, 0, this.token.length + 2);
  }

  project(places, at) { // [x, y] from 0 to 1 and how near
    const t = this.turn, [x, y, z] = [places[at], places[at + 1], places[at + 2]];
    const along = (row) => t[row] * x + t[row + 1] * y + t[row + 2] * z;
    return [0.5 + 0.5 * this.zoom * along(0), 0.5 - 0.5 * this.zoom * along(3), along(6)];
  }

  get farFirst() { // of tokens [x, y, nearness, token]
    const key = `${this.yaw} ${this.pitch} ${this.zoom}`;
    if (this.placesKey !== key) {
      const places = Array.from({ length: this.count }, (_, token) => [...this.project(this.centers, 3 * token), token]);
      Object.assign(this, { placesKey: key, places: places.sort((a, b) => a[2] - b[2]) });
    }
    return this.places;
  }

  // Tokens as discs where they are, far ones first
  drawSmall(canvas, values, scale, marks = []) {
    const pen = canvas.getContext("2d"), { width, height } = canvas;
    pen.fillStyle = "#fafafa";
    pen.fillRect(0, 0, width, height);
    const size = Math.max(2, Math.min(0.2 * width, (0.62 * width) / Math.sqrt(this.count))) / this.largest;
    pen.fillStyle = `rgb(${NOTHING})`;
    const dot = Math.max(1, width / 100);
    for (const i of this.dots) {
      const [x, y] = this.project(this.points, 3 * i);
      pen.fillRect(x * width - dot / 2, y * height - dot / 2, dot, dot);
    }
    for (const [x, y, , token] of this.farFirst) {
      pen.fillStyle = scale.color(values[token]);
      pen.beginPath();
      pen.arc(x * width, y * height, (size / 2) * this.tokenSizes[token], 0, 7);
      pen.fill();
    }
    for (const at of marks.filter((one) => one !== null)) {
      const [x, y] = this.project(this.centers, at);
      pen.strokeStyle = "#d6145a";
      pen.lineWidth = Math.max(1, width / 200);
      pen.strokeRect(x * width - size, y * height - size, 2 * size, 2 * size);
    }
  }

  pick(x, y) { // the nearest to the eye among points close by
    let found = null, best = -Infinity;
    const consider = (places, i, token) => {
      const [u, v, near] = this.project(places, 3 * i), away = Math.hypot(u - x, v - y);
      if (token >= 0 && away < 0.035 && near - 12 * away > best) { best = near - 12 * away; found = token; }
    };
    this.token.forEach((token, i) => consider(this.points, i, token));
    for (let token = 0; token < this.count; token++) consider(this.centers, token, token);
    return found;
  }

  step(token, direction) {
    return nearestInDirection(Array.from({ length: this.count }, (_, i) => this.project(this.centers, 3 * i).slice(0, 2)), token, direction);
  }

  rotate(dx, dy) {
    this.yaw += 4 * dx;
    this.pitch = Math.min(1.55, Math.max(-1.55, this.pitch + 4 * dy));
  }

  zoomBy(factor) { this.zoom = Math.min(8, Math.max(0.4, this.zoom * factor)); }
}
