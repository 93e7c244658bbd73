// The map: variables joined where one tells about the other. It shows so many variables as a person can take in: all of
// a small model, otherwise those of the strongest links, or a chosen variable and what depends on it. Hidden variables on a
// tree are drawn as that tree, with all of its variables.

const MAP_SIZE = 28;
const NEIGHBOURS = 14;
/** Less mutual information than this, in nats, is rounding. */
const LEAST_INFORMATION = 1e-6;

/** Return the variables to show and the links between them, strongest first. */
function chooseMap(model, focus) {
  const shown = new Set();
  if (focus !== null) {
    shown.add(focus);
    for (const [other] of model.linksOf(focus).slice(0, NEIGHBOURS)) shown.add(other);
  } else {
    for (const [a, b] of model.links) {
      if (new Set([...shown, a, b]).size > MAP_SIZE) break;
      shown.add(a).add(b);
    }
    // Of a small model everything is there, linked or not.
    if (model.variables.length <= MAP_SIZE) model.variables.forEach((_, index) => shown.add(index));
  }
  const between = model.links.filter(([a, b, information]) => shown.has(a) && shown.has(b) && information > LEAST_INFORMATION);
  return { shown: [...shown], links: thinOut(between, focus, shown.size) };
}

/** Return the links that carry the picture: those that keep it connected, those of the focus, and the strongest others. */
function thinOut(links, focus, size) {
  const group = new Map();
  const find = (index) => (group.has(index) ? find(group.get(index)) : index);
  const kept = new Set();
  for (const link of links) {
    const [one, other] = [find(link[0]), find(link[1])];
    if (one !== other || link[0] === focus || link[1] === focus) kept.add(link);
    if (one !== other) group.set(one, other);
  }
  for (const link of links) if (kept.size < 1.6 * size) kept.add(link);
  return links.filter((link) => kept.has(link));
}

/** Return a place for each variable, in percent, where no label covers another. */
function layOut(chosen, focus, widths) {
  const places = focus === null ? spread(chosen) : surround(chosen, focus);
  keepApart(chosen.shown, places, widths);
  return places;
}

/** Put a variable into the middle and the others around it, neighbours beside each other that tell most about each other. */
function surround({ shown, links }, focus) {
  const left = new Set(shown.filter((index) => index !== focus));
  const places = new Map([[focus, { x: 50, y: 50 }]]);
  const step = (2 * Math.PI) / left.size;
  let last = focus;
  for (let place = 0; left.size; place++) {
    const link = links.find(([a, b]) => (a === last && left.has(b)) || (b === last && left.has(a)));
    last = link ? link[link[0] === last ? 1 : 0] : left.values().next().value;
    left.delete(last);
    // Every second one stands farther out, so that labels have room.
    const [across, down] = place % 2 ? [42, 45] : [31, 33];
    places.set(last, { x: 50 + across * Math.sin(place * step), y: 50 - down * Math.cos(place * step) });
  }
  return places;
}

/** Spread variables over the frame: linked ones pull, all push one another away. */
function spread({ shown, links }) {
  const strongest = links[0]?.[2] ?? 1;
  const places = new Map(shown.map((index, at) => {
    const angle = (2 * Math.PI * at) / shown.length;
    return [index, { x: Math.cos(angle), y: Math.sin(angle) }];
  }));
  const nodes = [...places.values()];
  const springs = links.map(([a, b, information]) => [places.get(a), places.get(b), 0.4 + 0.6 * Math.sqrt(information / strongest)]);
  const distance = 1.6 / Math.sqrt(nodes.length);
  for (let step = 0; step < 300; step++) {
    const heat = 0.12 * (1 - step / 300);
    for (const node of nodes) [node.dx, node.dy] = [-0.03 * node.x, -0.03 * node.y];
    for (let i = 0; i < nodes.length; i++) {
      for (let j = 0; j < i; j++) pull(nodes[i], nodes[j], (length) => -((distance / length) ** 2));
    }
    for (const [one, other, strength] of springs) pull(one, other, (length) => (strength / distance) * length);
    for (const node of nodes) {
      const length = Math.hypot(node.dx, node.dy) || 1;
      node.x += (node.dx / length) * Math.min(length, heat);
      node.y += (node.dy / length) * Math.min(length, heat);
    }
  }
  for (const axis of ["x", "y"]) {
    // Half by distance, half by rank alone: a variable far out must not press all others together.
    const inOrder = nodes.toSorted((one, other) => one[axis] - other[axis]);
    const [low, high] = [inOrder[0][axis], inOrder.at(-1)[axis]];
    const distances = inOrder.map((node) => (node[axis] - low) / (high - low || 1));
    inOrder.forEach((node, rank) => (node[axis] = 8 + 42 * (distances[rank] + (rank + 0.5) / inOrder.length)));
  }
  return places;
}

/** Move two nodes toward each other by a share of their distance, which strengthOf gives; away if it is negative. */
function pull(one, other, strengthOf) {
  const dx = other.x - one.x || 1e-3;
  const dy = other.y - one.y;
  const scale = strengthOf(Math.hypot(dx, dy));
  one.dx += dx * scale;
  one.dy += dy * scale;
  other.dx -= dx * scale;
  other.dy -= dy * scale;
}

/** Move labels apart that cover one another, within the frame. */
function keepApart(shown, places, widths) {
  const height = 7;
  for (let step = 0; step < 200; step++) {
    let isClear = true;
    for (let i = 0; i < shown.length; i++) {
      for (let j = 0; j < i; j++) {
        const [one, other] = [places.get(shown[i]), places.get(shown[j])];
        const overX = (widths.get(shown[i]) + widths.get(shown[j])) / 2 + 1.5 - Math.abs(one.x - other.x);
        const overY = height - Math.abs(one.y - other.y);
        if (overX <= 0 || overY <= 0) continue;
        isClear = false;
        const axis = overX < 3 * overY ? "x" : "y";
        const move = ((axis === "x" ? overX : overY) / 2 + 0.1) * (one[axis] < other[axis] ? -1 : 1);
        one[axis] += move;
        other[axis] -= move;
      }
    }
    for (const index of shown) {
      const place = places.get(index);
      const margin = widths.get(index) / 2 + 0.5;
      place.x = Math.min(100 - margin, Math.max(margin, place.x));
      place.y = Math.min(96, Math.max(4, place.y));
    }
    if (isClear) return;
  }
}

/** The map and, beside it, the links in words. */
class LinkMap {
  #model;
  #actions;
  #elements;
  #nodes = new Map();
  #drawn = null;
  #card = null;

  /** elements: frame, lines, nodes, related. actions: those of cards. */
  constructor(model, elements, actions) {
    this.#model = model;
    this.#elements = elements;
    this.#actions = actions;
  }

  show(answer, state) {
    // Labels keep clear of one another for the width of the frame that they are laid out in.
    const width = this.#elements.nodes.clientWidth;
    const { tree } = this.#model.form.hidden[state.hidden];
    const isDrawn = this.#drawn?.focus === state.focus && this.#drawn.width === width && this.#drawn.tree === tree;
    // Without a width the page is not laid out yet, and this is called again once it is.
    if (width && !isDrawn) this.#draw(state.focus, width, tree);
    for (const [index, node] of this.#nodes) {
      if (index < 0) continue;
      const change = answer.shares && state.hasEvidence ? this.#model.change(index, answer.shares) : 0;
      node.style.setProperty("--change", Math.min(1, 1.5 * change).toFixed(3));
      node.classList.toggle("is-known", state.evidence.has(index));
    }
    this.#card?.show(answer, state);
  }

  #draw(focus, width, tree) {
    this.#drawn = { focus, width, tree };
    const { isTree } = this.#model;
    const chosen = isTree ? chooseTree(this.#model, tree) : chooseMap(this.#model, focus);
    this.#nodes = new Map(chosen.shown.map((index) => [index, index < 0 ? this.#makeJoint(jointOf(index)) : this.#makeNode(index, focus)]));
    this.#elements.frame.classList.toggle("is-dense", isTree && chosen.shown.length > DENSE);
    this.#elements.nodes.replaceChildren(...this.#nodes.values());
    const widths = new Map([...this.#nodes].map(([index, node]) => [index, (100 * node.offsetWidth) / width]));
    const { places, rows } = isTree ? branchOut(chosen, widths) : { places: layOut(chosen, focus, widths), rows: 0 };
    this.#elements.frame.style.minHeight = isTree ? `${ROW * rows}px` : "";
    for (const [index, node] of this.#nodes) {
      node.style.left = `${places.get(index).x}%`;
      node.style.top = `${places.get(index).y}%`;
    }
    const strongest = Math.max(LEAST_INFORMATION, chosen.links[0]?.[2] ?? 0);
    this.#elements.lines.replaceChildren(...chosen.links.toReversed().map(([a, b, information]) => {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const [one, other] = [places.get(a), places.get(b)];
      const middle = (one.end + other.end) / 2;
      line.setAttribute("d", isTree ? `M${one.end} ${one.y}C${middle} ${one.y} ${middle} ${other.y} ${other.end} ${other.y}` : `M${one.x} ${one.y}L${other.x} ${other.y}`);
      const strength = Math.sqrt(information / strongest);
      line.style.strokeWidth = `${1 + (isTree ? 5 : 7) * strength}px`;
      line.style.opacity = 0.25 + 0.6 * strength;
      return line;
    }));
    this.#drawRelated(focus);
  }

  #makeNode(index, focus) {
    const { name } = this.#model.variables[index];
    const isFocus = index === focus;
    return make("button", { className: "node", type: "button", ariaPressed: String(isFocus), title: name, onclick: () => this.#actions.focus(isFocus ? null : index) }, makeLabel(name));
  }

  #makeJoint(hidden) {
    const name = this.#model.hiddenName(hidden);
    return make("button", { className: "joint", type: "button", title: name, ariaLabel: `The states of ${name}`, onclick: () => this.#actions.showHidden(hidden) });
  }

  #drawRelated(focus) {
    const { related } = this.#elements;
    this.#card = null;
    if (focus === null) {
      const strongest = this.#model.links[0]?.[2] || 1;
      const rows = this.#model.links.slice(0, 40).map(([a, b, information]) => {
        return this.#makeLink([a, b], a, information / strongest, `${(information / Math.LN2).toPrecision(2)} bits`);
      });
      related.replaceChildren(
        make("h3", {}, "Strongest links"),
        make("p", { className: "hint" }, rows.length ? "How much two variables tell about each other, in bits. 1 bit settles a question of yes or no." : "There is only one variable, so nothing to link."),
        make("ol", { className: "rows" }, ...rows),
      );
      return;
    }
    const { name } = this.#model.variables[focus];
    const rows = this.#model
      .linksOf(focus)
      .map(([other, information]) => [other, Math.min(1, information / (this.#model.entropy(other) || Infinity))])
      .sort((one, other) => other[1] - one[1])
      .map(([other, removed]) => this.#makeLink([other], other, removed, percent(removed)));
    this.#card = new Card(this.#model, focus, this.#actions);
    related.replaceChildren(
      make("button", { className: "plain", type: "button", onclick: () => this.#actions.focus(null) }, "← the whole map"),
      this.#card.element,
      make("h3", {}, "Knowing ", makeLabel(name), " tells about"),
      make("p", { className: "hint" }, "The part of the uncertainty about each variable that knowing this one takes away, on average."),
      make("ol", { className: "rows" }, ...rows),
    );
  }

  #makeLink(indices, target, share, text) {
    const names = indices.flatMap((index, at) => [...(at ? [" – "] : []), makeLabel(this.#model.variables[index].name)]);
    const properties = { className: "row", type: "button", onclick: () => this.#actions.focus(target) };
    const label = make("span", { className: "label" }, ...names);
    const value = make("span", { className: "share" }, text);
    return make("li", {}, make("button", properties, label, value, new Track().show(share).element));
  }
}
