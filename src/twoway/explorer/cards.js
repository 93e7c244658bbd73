// A variable as a card: a button for each category, with a bar for its share and a line for the share without evidence.

/** A bar for a share, and a line at another one to compare it with; a dot where it was observed. */
class Track {
  #dot = make("i", { className: "dot", hidden: true });
  #second = make("i", { className: "second" });

  constructor(before = null) {
    this.element = make("span", { className: "track", ariaHidden: "true" });
    if (before === null) return;
    const tick = make("i", { className: "tick" });
    tick.style.left = `${100 * before}%`;
    this.element.append(tick, this.#dot, this.#second);
  }

  /** Show the share of the other group. */
  compare(share) {
    this.#second.style.width = `${100 * (share ?? 0)}%`;
  }

  /** Mark the share that was observed; null for none. */
  mark(share) {
    this.#dot.hidden = share === null;
    this.#dot.style.left = `${100 * (share ?? 0)}%`;
  }

  /** Show a share, and the range it may lie in where there is one. */
  show(share, range = null) {
    // Neither a width nor a transform: a background is painted anew without a new layout.
    const wide = range ? range.high - range.low : 0;
    const left = wide > 0 && wide < 1 ? range.low / (1 - wide) : 0;
    this.element.style.backgroundSize = `${100 * wide}% 4px, ${100 * share}% 100%`;
    this.element.style.backgroundPosition = `${100 * left}% 50%, 0 0`;
    return this;
  }
}

/** A category with its bar: a button that says whether the category is part of what is known. */
class Row {
  #track;
  #share = make("span", { className: "share" }, "");
  #range = make("span", { className: "range" }, "");
  #change = make("span", { className: "change" }, "");
  #before;
  #shown;
  #isPressed = false;

  constructor(label, before, pick) {
    this.#before = before;
    this.#track = new Track(before);
    const properties = { className: "row", type: "button", ariaPressed: "false", onclick: pick };
    this.element = make("button", properties, label, this.#share, this.#range, this.#change, this.#track.element);
  }

  /**
   * Show a share; null where there is none, because the evidence cannot occur. What stays the same is not touched.
   *
   * seen: the records that show the category, and those among which they were counted.
   * compared: the share of the other group, undefined where there is none; and the range of the difference from it.
   */
  show(share, isPressed, range = null, seen = null, compared = undefined, apart = null) {
    const title = seen ? observedText(...seen) : "";
    if (title !== this.element.title) {
      this.element.title = title;
      this.#track.mark(seen && seen[0] / seen[1].total);
    }
    const key = `${share} ${range?.low} ${range?.high} ${compared} ${apart?.low} ${apart?.high}`;
    if (key !== this.#shown) {
      this.#shown = key;
      this.#track.show(share ?? 0, range);
      this.#share.firstChild.data = share === null ? "–" : percent(share);
      this.#range.firstChild.data = range ? shareRange(range) : "";
      this.#track.compare(compared);
      const from = compared === undefined ? this.#before : compared;
      const change = share === null || from === null ? "" : points(share - from);
      this.#change.firstChild.data = apart ? `${change || "0.0"} (${pointsRange(apart)})` : change;
      this.#change.className = change.startsWith("−") ? "change less" : "change";
    }
    if (isPressed !== this.#isPressed) {
      this.#isPressed = isPressed;
      this.element.ariaPressed = String(isPressed);
    }
  }
}

/** Return the range of the difference of two groups in a cell; null where there are no two, or no replicates. */
function differenceRange({ shares, compared, surroundings, beside }, cell) {
  const range = beside && surroundings.difference(shares[cell] - compared.shares[cell], beside, cell);
  return range && range.high - range.low > 1e-9 ? range : null;
}

/** Variables that the note of a card names at most. */
const MOST_NAMED = 3;

class Card {
  #model;
  #rows;
  #mean;
  #clear;
  #silence = make("p", { className: "silence", hidden: true });

  /** actions: pick(index, code), clear(index), focus(index). */
  constructor(model, index, actions) {
    this.#model = model;
    this.index = index;
    const { name, categories } = model.variables[index];
    this.#rows = categories.map((text, code) => {
      const before = model.prior.shares[model.offsets[index] + code];
      return new Row(makeLabel(text, "label"), before, () => actions.pick(index, code));
    });
    this.#mean = make("span", { className: "mean" });
    this.#clear = make("button", { className: "small", type: "button", hidden: true, ariaLabel: `Clear ${name}`, onclick: () => this.#clearAll(actions) }, "clear");
    const related = make("button", { className: "small", type: "button", ariaLabel: `What depends on ${name}`, title: "What depends on this?", onclick: () => actions.focus(index) }, "links");
    const heading = make("h3", {}, makeLabel(name));
    this.element = make(
      "article",
      { className: "card", ariaLabel: name },
      make("header", {}, heading, this.#mean, this.#clear, related),
      this.#silence,
      make("div", { className: "rows" }, ...this.#rows.map((row) => row.element)),
    );
    this.searched = plainText([name, ...categories].join("\n"));
  }

  show(answer, state) {
    const { offsets, prior } = this.#model;
    const codes = state.evidence.get(this.index);
    const around = answer.surroundings;
    const seen = answer.shares && this.#model.observed?.of(this.index, state);
    this.#rows.forEach((row, code) => {
      const cell = offsets[this.index] + code;
      const share = answer.shares ? answer.shares[cell] : null;
      row.show(share, codes?.has(code) ?? false, around && around.share(share, cell), seen && seen.counts[code] !== null ? [seen.counts[code], seen, this.#model.observed.areShares] : null, answer.compared ? (answer.compared.shares?.[cell] ?? null) : undefined, differenceRange(answer, cell));
    });
    this.element.classList.toggle("is-known", Boolean(codes));
    this.#clear.hidden = !codes;
    if (this.#model.silent) this.#showSilence(state);
    const reference = answer.compared ? answer.compared.shares : prior.shares;
    const before = this.#model.mean(this.index, reference ?? prior.shares);
    if (before !== null) {
      const meanOf = (shares) => this.#model.mean(this.index, shares);
      const mean = answer.shares ? number(meanOf(answer.shares)) : "–";
      const range = around ? ` (${meanRange(around.mean(meanOf(answer.shares), meanOf))})` : "";
      setText(this.#mean, `mean ${mean}${range}${answer.compared ? `, other ${reference ? number(before) : "–"}` : state.hasEvidence && mean !== number(before) ? `, was ${number(before)}` : ""}`);
    }
  }

  /** Grey the card, and say with which of the variables that are known no table shows it. */
  #showSilence({ evidence, other }) {
    const known = new Set([...evidence.keys(), ...(other?.evidence.keys() ?? [])]);
    const { variables } = this.#model;
    const names = [...known].filter((index) => this.#model.isSilent(this.index, index)).map((index) => `'${variables[index].name}'`);
    const named = names.length > MOST_NAMED ? [...names.slice(0, MOST_NAMED), `${names.length - MOST_NAMED} more`] : names;
    const text = names.length ? `no table shows this with ${oneOf(named)}` : "";
    if (text === this.#silence.textContent) return;
    this.#silence.textContent = text;
    this.#silence.hidden = !text;
    this.#silence.title = text && "What is shown is what the model concludes from other variables, of which there are tables.";
    this.element.classList.toggle("is-silent", text !== "");
    this.element.ariaLabel = [variables[this.index].name, text].filter(Boolean).join(": ");
  }

  #clearAll(actions) {
    actions.clear(this.index);
    this.focusFirst();
  }

  focusFirst() {
    this.#rows[0].element.focus();
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Let the arrow keys move between the categories of a list of cards: up and down a row, left and right a card. */
function moveByArrows(container) {
  container.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !event.target.matches(".row")) return;
    const card = event.target.closest(".card");
    let target = null;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const rows = [...container.querySelectorAll(".card:not([hidden]) .row")];
      target = rows[rows.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const cards = [...container.querySelectorAll(".card:not([hidden])")];
      target = cards[cards.indexOf(card) + (event.key === "ArrowRight" ? 1 : -1)]?.querySelector(".row");
    }
    if (!target) return;
    event.preventDefault();
    target.focus();
  });
}
