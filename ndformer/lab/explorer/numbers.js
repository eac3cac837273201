// Logits of one query and their terms, from queries, keys and forms (forms.py), as attention.logits(parts=True) has them.

const NUMBERS = { f4: Float32Array, f8: Float64Array, i2: Int16Array, u1: Uint8Array, i4: Int32Array };

function bytesOf(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes.buffer;
}

const arrayOf = (text, kind) => new NUMBERS[kind](bytesOf(text));

// The arrays of a layer, read when they are first asked for.
class Layer {
  constructor(data, id, count) {
    Object.assign(this, { data, id, count, number: data.number, heads: data.heads, cache: [] });
  }

  array(number) {
    if (this.cache[number]) return this.cache[number];
    if (!this.bytes) this.bytes = bytesOf(document.getElementById(this.id).textContent);
    const { kind, shape, at, steps, low } = this.data.arrays[number];
    const size = shape.reduce((a, b) => a * b, 1);
    const found = new NUMBERS[kind](this.bytes, at, size);
    return (this.cache[number] = steps === undefined ? found : this.exact(found, shape, this.array(steps), low === undefined ? null : this.array(low)));
  }

  // (H, N, h) whole numbers, times the step of each channel of a head; `low` has four more bits of each
  exact(whole, [heads, count, width], steps, low) {
    const values = new Float32Array(whole.length);
    for (let h = 0, at = 0; h < heads; h++)
      for (let i = 0; i < count; i++)
        for (let c = 0; c < width; c++, at++) {
          const number = low ? whole[at] * 16 + ((low[at >> 1] >> (4 * (at & 1))) & 15) : whole[at];
          values[at] = number * steps[h * width + c];
        }
    return values;
  }

  products([q, k], head, query) {
    const [, count, width] = this.data.arrays[q].shape;
    const ours = this.array(q), theirs = this.array(k), start = (head * count + query) * width;
    const found = new Float64Array(count);
    for (let j = 0, at = head * count * width; j < count; j++) {
      let sum = 0;
      for (let c = 0; c < width; c++, at++) sum += ours[start + c] * theirs[at];
      found[j] = sum * this.data.scale;
    }
    return found;
  }

  // {terms: [[name, values]], logits, attention}; of rotary encodings also what semantic is without their turn
  evaluate(head, query) {
    const { data } = this;
    const terms = [["semantic", this.products(data.semantic, head, query)]];
    for (const term of data.terms) terms.push([term.name, hidden(FORMS[term.form](this, term, head, query), term.hides, query)]);
    const logits = new Float64Array(this.count);
    for (const [, values] of terms) for (let j = 0; j < logits.length; j++) logits[j] += values[j];
    const found = { terms, logits, attention: softmax(logits), inner: [] };
    if (data.plain) {
      const plain = this.products(data.plain, head, query);
      found.inner = [["unturned", plain], ["turn", plain.map((value, j) => terms[0][1][j] - value)]];
    }
    return found;
  }
}

// Pairs with tokens that have no place get nothing.
function hidden(values, hides, query) {
  if (hides && hides.includes(query)) return values.fill(0);
  for (const j of hides || []) values[j] = 0;
  return values;
}

function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const shares = logits.map((value) => Math.exp(value - largest));
  const total = shares.reduce((a, b) => a + b, 0);
  return shares.map((value) => value / total);
}

// r_j - r_i along each axis, in the precision of positions
function differences(layer, axes, query) {
  return axes.map((number) => {
    const places = layer.array(number), rounded = places instanceof Float32Array ? Math.fround : (x) => x;
    return Float64Array.from(places, (place) => rounded(place - places[query]));
  });
}

const CURVES = {
  linear: (d, slope) => -slope * d,
  power: (d, a, p) => (d > 0 ? -a * d ** p : 0),
  logarithm: (d, a, p) => -p * Math.log1p(a * d),
  gaussian: (d, width) => -0.5 * (d / width) ** 2,
};

const FORMS = {
  polynomial(layer, { axes, exponents, times, coefficients }, head, query) {
    const steps = differences(layer, axes, query), found = new Float64Array(layer.count);
    exponents.forEach((powers, t) => {
      const factor = times[t] * layer.array(coefficients[t])[head * layer.count + query];
      for (let j = 0; j < found.length; j++) {
        let product = factor;
        for (let p = 0; p < powers.length; p++) for (let n = 0; n < powers[p]; n++) product *= steps[p][j];
        found[j] += product;
      }
    });
    return found;
  },

  distance(layer, { axes, curve, numbers }, head, query) {
    const steps = differences(layer, axes, query), own = numbers.map((of) => of[head]);
    return new Float64Array(layer.count).map((_, j) => CURVES[curve](Math.hypot(...steps.map((step) => step[j])), ...own));
  },

  steps(layer, { grid, table, rows, columns }, head, query) {
    const cells = grid.reduce((a, b) => a * b, 1), before = layer.count - cells, found = new Float64Array(layer.count);
    const one = (number) => (layer.data.arrays[number].shape[0] > 1 ? head : 0); // all heads may share a table
    if (query < before) {
      const own = layer.array(rows), start = (one(rows) * before + query) * layer.count;
      return found.map((_, j) => own[start + j]);
    }
    const own = layer.array(columns), start = (one(columns) * cells + query - before) * before;
    for (let j = 0; j < before; j++) found[j] = own[start + j];
    const values = layer.array(table), size = layer.data.arrays[table].shape[1], here = placeOf(query - before, grid);
    for (let cell = 0; cell < cells; cell++) {
      const there = placeOf(cell, grid);
      let at = 0;
      for (let p = 0; p < grid.length; p++) at = at * (2 * grid[p] - 1) + there[p] - here[p] + grid[p] - 1;
      found[before + cell] = values[one(table) * size + at];
    }
    return found;
  },

  whole(layer, { values }, head, query) {
    const shared = layer.data.arrays[values].shape[0] === 1, start = ((shared ? 0 : head) * layer.count + query) * layer.count;
    return Float64Array.from(layer.array(values).subarray(start, start + layer.count));
  },
};

function placeOf(cell, grid) {
  const place = new Array(grid.length);
  for (let p = grid.length - 1; p >= 0; p--) { place[p] = cell % grid[p]; cell = Math.floor(cell / grid[p]); }
  return place;
}
