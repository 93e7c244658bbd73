// What the person has chosen, and how the page's address holds it: #age=18-39,40-64&vote=yes&!view=map
// Names and labels stand there as they are shown, so that an address outlives a new fit; what begins with "!" is the page's own.

const VIEWS = ["answers", "map", "components", "segments"].filter((name) => document.getElementById(name));
const ORDERS = ["data", "changed"];

class State {
  /** From a variable's position to the set of its categories that may hold. */
  evidence = new Map();
  /** The components that may hold, which are the states of hidden variables; empty for all. */
  components = new Set();
  view = "answers";
  order = "data";
  find = "";
  /** The variable at the centre of the map, or null. */
  focus = null;
  /** The hidden variable whose states are shown, in the tree that is drawn. */
  hidden = 0;
  /** The names of segments that the person gave, or null. */
  names = null;
  /** The state of another group to compare with, of which only the evidence matters; or null. */
  other = null;

  get hasEvidence() {
    return this.evidence.size > 0 || this.components.size > 0;
  }

  toggle(index, code) {
    toggleIn(this.#codes(index), code);
    if (!this.evidence.get(index).size) this.evidence.delete(index);
  }

  #codes(index) {
    if (!this.evidence.has(index)) this.evidence.set(index, new Set());
    return this.evidence.get(index);
  }

  /** Keep what is known as the other group, and begin anew; or go back to that group alone. */
  compare() {
    const kept = new State();
    kept.evidence = new Map(this.evidence);
    kept.components = new Set(this.components);
    this.other = kept;
    this.clear();
  }

  swap() {
    for (const part of ["evidence", "components"]) [this[part], this.other[part]] = [this.other[part], this[part]];
  }

  clear() {
    this.evidence.clear();
    this.components.clear();
  }

  toHash(model) {
    const { variables, stateNumbers } = model;
    const parts = [];
    for (const [index, codes] of this.evidence) {
      const { name, categories } = variables[index];
      parts.push(`${encode(name)}=${[...codes].map((code) => encode(categories[code])).join(",")}`);
    }
    if (this.components.size) parts.push(`!component=${[...this.components].map((state) => stateNumbers[state]).join(",")}`);
    if (this.other) parts.push(`!other=${encode(this.other.toHash(model).slice(1))}`);
    if (this.view !== "answers") parts.push(`!view=${this.view}`);
    if (this.order !== "data") parts.push(`!order=${this.order}`);
    if (this.find) parts.push(`!find=${encode(this.find)}`);
    if (this.focus !== null) parts.push(`!focus=${encode(variables[this.focus].name)}`);
    if (this.names) parts.push(`!names=${this.names.map(encode).join(",")}`);
    if (this.hidden) parts.push(`!hidden=${this.hidden + 1}`);
    // Not an empty hash: to a browser that means the top of the page.
    return `#${parts.join("&") || "!"}`;
  }

  /** Return the state that an address holds, and what in it this page does not know. */
  static fromHash(hash, model) {
    const { variables, stateNumbers, form, segments } = model;
    const state = new State();
    const unknown = [];
    const positions = new Map(variables.map(({ name }, index) => [name, index]));
    for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
      const [key, value = ""] = part.split("=", 2);
      const texts = value.split(",").map(decode);
      if (key === "!view" && VIEWS.includes(value)) state.view = value;
      else if (key === "!order" && ORDERS.includes(value)) state.order = value;
      else if (key === "!find") state.find = texts[0];
      else if (key === "!focus" && positions.has(texts[0])) state.focus = positions.get(texts[0]);
      else if (key === "!hidden" && value - 1 in form.hidden) state.hidden = value - 1;
      else if (key === "!names" && segments?.names.length === new Set(texts.filter(Boolean)).size && texts.length === segments.names.length) state.names = texts;
      else if (key === "!other") {
        const other = State.fromHash(texts[0], model);
        state.other = Object.assign(other.state, { other: null });
        unknown.push(...other.unknown);
      } else if (key === "!component") {
        for (const text of texts) {
          if (stateNumbers.includes(text)) state.components.add(stateNumbers.indexOf(text));
          else unknown.push(`component ${text}`);
        }
      } else if (positions.has(decode(key))) {
        const index = positions.get(decode(key));
        for (const text of texts) {
          const code = variables[index].categories.indexOf(text);
          if (code >= 0) state.#codes(index).add(code);
          else unknown.push(`${decode(key)} = ${text}`);
        }
      } else if (!key.startsWith("!")) unknown.push(decode(key));
    }
    return { state, unknown };
  }
}

function toggleIn(set, entry) {
  if (!set.delete(entry)) set.add(entry);
}

function encode(text) {
  return encodeURIComponent(text).replaceAll("!", "%21");
}

/** Return what encode was given; an address that somebody mangled is text as it stands. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
