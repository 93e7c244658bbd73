// The page: one state, one answer for it, and everything on the page shown from these two.

/** Cards on the page at a time; a button shows as many more. */
const PAGE = 300;
/** Cards that are taken to be in sight where the browser has not said yet which are. */
const FIRST_CARDS = 20;
/** Evidence rarer than this is warned of, and evidence that fewer records than this are expected to fit. */
const RARE = 0.001;
const FEW_RECORDS = 5;

const described = JSON.parse(document.getElementById("model").textContent);
const model = new Model(described);
const replicates = described.replicates && new Replicates(model, described.replicates);
const at = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));
let { state, unknown } = State.fromHash(location.hash, model);
let answer = null;
let limit = PAGE;
let shownIndices = [];

const actions = {
  pick: (index, code) => change(() => state.toggle(index, code)),
  clear: (index) => change(() => state.evidence.delete(index)),
  pickComponent: (component) => change(() => toggleIn(state.components, component)),
  showComponent(component) {
    change(() => {
      state.clear();
      state.components.add(component);
      state.view = "answers";
    });
    at["tab-answers"].focus();
    scrollTo({ top: 0 });
  },
  showHidden(hidden) {
    view(() => Object.assign(state, { hidden, view: "components" }));
    at["tab-components"].focus();
    scrollTo({ top: 0 });
  },
  focus(index) {
    const isMap = state.view === "map";
    view(() => Object.assign(state, { focus: index, view: "map" }));
    if (!isMap) scrollTo({ top: 0 });
    say(index === null ? "The whole map." : `What depends on ${model.variables[index].name}.`);
    (at.nodes.querySelector('[aria-pressed="true"]') ?? at.nodes.querySelector("button")).focus();
  },
};
const segments =
  described.segments &&
  new SegmentTable(model, described.segments, {
    state: () => state,
    rename: (names) => change(() => (state.names = names)),
    refuse(text) {
      segments.show(state);
      say(text);
      setText(at.warning, text);
      at.warning.hidden = false;
    },
  });
const cards = model.variables.map(() => null);
let kinds = { hidden: null, cards: [] };
const inSight = new Set();
const watcher = new IntersectionObserver(
  (entries) => entries.forEach(({ target, isIntersecting }) => inSight[isIntersecting ? "add" : "delete"](target)),
  { rootMargin: "200px" },
);
let frame = 0;
let timer = 0;
const linkMap = new LinkMap(model, { frame: at.frame, lines: at.lines, nodes: at.nodes, related: at.related }, actions);

function cardOf(index) {
  if (!cards[index]) {
    cards[index] = new Card(model, index, actions);
    watcher.observe(cards[index].element);
  }
  return cards[index];
}

/** Change what is known: a new entry in the browser's history, so that its back button takes it back. */
function change(action) {
  action();
  unknown = [];
  location.hash = state.toHash(model);
  update();
  say(spokenAnswer());
}

/** Change what is looked at: the address follows, without an entry in the history. */
function view(action) {
  action();
  location.replace(state.toHash(model));
  draw();
}

function update() {
  answer = model.given(state.evidence, state.components);
  answer.compared = state.other && model.given(state.other.evidence, state.other.components);
  answer.surroundings = answer.shares && replicates ? replicates.given(state.evidence, state.components) : null;
  answer.beside = answer.surroundings && answer.compared?.shares ? replicates.given(state.other.evidence, state.other.components) : null;
  draw();
}

function draw() {
  document.documentElement.classList.toggle("has-evidence", state.hasEvidence || state.other !== null);
  document.documentElement.classList.toggle("is-compared", state.other !== null);
  document.documentElement.classList.toggle("is-impossible", !answer.shares);
  document.documentElement.classList.toggle("has-counts", model.observed?.isAbout(state) ?? false);
  for (const name of VIEWS) {
    at[name].hidden = state.view !== name;
    at[`tab-${name}`].setAttribute("aria-selected", String(state.view === name));
    at[`tab-${name}`].tabIndex = state.view === name ? 0 : -1;
  }
  drawKnown();
  if (state.view === "answers") drawCards();
  if (state.view === "map") linkMap.show(answer, state);
  if (at.tree) at.tree.value = model.form.hidden[state.hidden].tree;
  if (state.view === "components") drawComponents();
  if (segments) segments.show(state);
}

function drawCards() {
  const wanted = plainText(state.find.trim());
  let indices = model.variables.map((_, index) => index);
  if (wanted) indices = indices.filter((index) => cardOf(index).searched.includes(wanted));
  if (state.order === "changed" && answer.shares) {
    const from = answer.compared?.shares ?? model.prior.shares;
    const changes = indices.map((index) => model.change(index, answer.shares, from));
    const isKnown = (index) => state.evidence.has(index) || state.other?.evidence.has(index);
    const changeOf = new Map(indices.map((index, place) => [index, isKnown(index) ? 2 : changes[place]]));
    indices.sort((one, other) => changeOf.get(other) - changeOf.get(one) || one - other);
  }
  shownIndices = indices.slice(0, limit);
  showCards(shownIndices.map(cardOf));
  const total = model.variables.length;
  setText(at.count, indices.length === total ? "" : indices.length ? `${indices.length} of ${total} variables` : `No variable or category matches “${state.find.trim()}”.`);
  at.more.hidden = indices.length <= limit;
  setText(at.more, `Show ${Math.min(PAGE, indices.length - limit)} more of ${indices.length}`);
  if (at.find.value !== state.find) at.find.value = state.find;
  at.order.value = state.order;
}

/** Show the cards that are in sight at once, and the others as soon as those are on the screen. */
function showCards(shown) {
  const first = placeCards(shown);
  for (const card of shown) if (first.has(card) || inSight.has(card.element)) card.show(answer, state);
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = requestAnimationFrame(() => {
    timer = setTimeout(() => {
      if (first.size) at.cards.append(...shown.slice(first.size).map((card) => card.element));
      for (const card of shown) card.show(answer, state);
    });
  });
}

/** Where the cards are not those that should be there, in that order, put the first few in place and return them. */
function placeCards(shown) {
  const elements = shown.map((card) => card.element);
  const { children } = at.cards;
  if (elements.length === children.length && elements.every((element, place) => element === children[place])) return new Set();
  const wanted = new Set(elements);
  for (const element of [...children]) if (!wanted.has(element)) element.remove();
  const focused = document.activeElement;
  elements.slice(0, FIRST_CARDS).forEach((element, place) => {
    if (children[place] !== element) at.cards.insertBefore(element, children[place] ?? null);
  });
  // An element that moves loses the focus.
  if (at.cards.contains(focused)) focused.focus({ preventScroll: true });
  return new Set(shown.slice(0, FIRST_CARDS));
}

function drawComponents() {
  if (kinds.hidden !== state.hidden) {
    const { first, states } = model.form.hidden[state.hidden];
    const cards = Array.from({ length: states }, (_, place) => new ComponentCard(model, first + place, actions));
    kinds = { hidden: state.hidden, cards };
    at.kinds.replaceChildren(...cards.map((kind) => kind.element));
  }
  if (model.isTree) at.hidden.value = state.hidden;
  for (const kind of kinds.cards) kind.show(answer, state);
}

// What is known

function evidenceTexts(group = state) {
  const texts = [...group.evidence].map(([index, codes]) => {
    const { name, categories } = model.variables[index];
    return { name, value: oneOf([...codes].sort((a, b) => a - b).map((code) => categories[code])), remove: () => change(() => group.evidence.delete(index)) };
  });
  const { owners } = model.form;
  for (const hidden of new Set([...group.components].map((component) => owners[component]))) {
    const components = [...group.components].filter((component) => owners[component] === hidden).sort((a, b) => a - b);
    const value = oneOf(components.map((component) => model.stateNumbers[component]));
    const remove = () => change(() => components.forEach((component) => group.components.delete(component)));
    texts.push({ name: model.isTree ? "state" : "component", value, remove });
  }
  return texts;
}

function drawKnown() {
  const known = evidenceTexts();
  const plain = (text, action) => make("button", { className: "plain", type: "button", onclick: () => change(action) }, text);
  const chipsOf = (texts, className) => texts.map(({ name, value, remove }) =>
    make("span", { className }, makeLabel(name, "of"), " ", makeLabel(value), make("button", { type: "button", ariaLabel: `Clear ${name}`, onclick: remove }, "×")),
  );
  const chips = chipsOf(known, "chip");
  if (known.length || state.other) {
    chips.unshift(make("span", { className: "given" }, known.length ? "Given" : "Everyone (pick below)"));
    if (state.other) {
      const other = chipsOf(evidenceTexts(state.other), "chip chip-other");
      chips.push(make("span", { className: "given" }, "compared with"), ...(other.length ? other : [make("span", { className: "chip chip-other chip-all" }, "everyone")]));
      chips.push(plain("Swap", () => state.swap()), plain("Stop comparing", () => (state.other = null)));
    } else chips.push(plain("Compare with another group", () => state.compare()));
    chips.push(plain("Clear all", () => { state.clear(); state.other = null; }));
  } else {
    chips.push(make("span", { className: "given" }, "Click what you know.", make("span", { className: "hint" }, " Pick any category below, and all other bars move to what is then probable. Several categories of one variable mean “one of these”.")));
  }
  const hadFocus = at.chips.contains(document.activeElement);
  at.chips.replaceChildren(...chips);
  if (hadFocus) (at.chips.querySelector("button") ?? at[`tab-${state.view}`]).focus();
  setText(at.chance, state.hasEvidence ? chanceText() : "");
  const warning = warningText();
  setText(at.warning, warning);
  at.warning.hidden = !warning;
  drawMoved();
}

/** Return the number of records: of those with weights, the effective number, which is hardly ever whole. */
function recordsText() {
  return `${number(model.records)} ${Number.isInteger(model.records) ? "" : "effective "}records`;
}

function chanceText() {
  if (!answer.shares) return "Probability of this: 0";
  const probability = Math.exp(answer.logProbability);
  const expected = model.records === null ? "" : `, or ${expectedText(probability * model.records)} of the ${recordsText()} learned from`;
  const range = answer.surroundings ? ` (${shareRange(answer.surroundings.chance(probability))}%)` : "";
  return `Probability of this: ${probability < 0.0005 ? "" : `${percent(probability)}${range}, `}${oneIn(answer.logProbability)}${expected}`;
}

function expectedText(expected) {
  return expected < 0.5 ? "none" : `some ${number(expected < 100 ? Math.round(expected) : Number(expected.toPrecision(2)))}`;
}

function warningText() {
  if (unknown.length) return `The address has names that this page does not know, and ignores: ${unknown.slice(0, 5).join("; ")}${unknown.length > 5 ? "; …" : ""}.`;
  if (!state.hasEvidence) return "";
  if (!answer.shares) return "According to the model this combination is impossible, so there is nothing to show. Remove one of the above.";
  const probability = Math.exp(answer.logProbability);
  if (probability >= RARE && !(model.records * probability < FEW_RECORDS && model.records)) return "";
  return "This combination hardly ever occurs. The data have few such records or none, so the bars below rest on the model’s assumptions: do not rely on them.";
}

/** Return the variables that evidence changes most, leaving out those it is about. */
function mostChanged(count) {
  if (!state.hasEvidence || !answer.shares) return [];
  return model.variables
    .map((_, index) => [index, state.evidence.has(index) ? 0 : model.change(index, answer.shares)])
    .filter(([, changed]) => changed >= 0.005)
    .sort((one, other) => other[1] - one[1])
    .slice(0, count);
}

function drawMoved() {
  const moved = mostChanged(6).map(([index]) =>
    make("button", { className: "plain", type: "button", onclick: () => goTo(index) }, makeLabel(model.variables[index].name)),
  );
  at.moved.hidden = !moved.length;
  at.moved.replaceChildren("Changed most: ", ...moved);
}

function goTo(index) {
  view(() => Object.assign(state, { view: "answers", find: "" }));
  while (!cardOf(index).element.isConnected) {
    limit += PAGE;
    drawCards();
  }
  cardOf(index).element.scrollIntoView({ block: "center" });
  cardOf(index).focusFirst();
}

function spokenAnswer() {
  if (!state.hasEvidence && !state.other) return "Nothing is known; all distributions are those of all records.";
  const given = [groupText(state), ...(state.other ? [groupText(state.other)] : [])].join(", compared with ");
  if (!state.hasEvidence) return `${given}.`;
  const moved = mostChanged(3).map(([index]) => model.variables[index].name).join(", ");
  return `Given ${given}. ${chanceText()}. ${warningText()} ${moved ? `Changed most: ${moved}.` : ""}`;
}

/** Return what is known of a group in words. */
function groupText(group) {
  return evidenceTexts(group).map(({ name, value }) => `${name}: ${value}`).join("; ") || "everyone";
}

function say(text) {
  setText(at.said, text);
}

// Controls

at.find.addEventListener("input", () => {
  limit = PAGE;
  view(() => (state.find = at.find.value));
  say(at.count.textContent);
});
at.order.addEventListener("change", () => view(() => (state.order = at.order.value)));
if (model.isTree) {
  at.hidden.append(...model.form.hidden.map((_, hidden) => make("option", { value: hidden }, model.hiddenName(hidden))));
  at.hidden.addEventListener("change", () => view(() => (state.hidden = Number(at.hidden.value))));
}
if (at.tree) {
  const { hidden, leaves } = model.form;
  at.tree.append(...leaves.map((_, tree) => make("option", { value: tree }, `${tree + 1} (${percent(model.numbers[tree])})`)));
  at.tree.addEventListener("change", () => view(() => (state.hidden = hidden.findIndex(({ tree }) => tree === Number(at.tree.value)))));
}
if (segments) {
  at.heat.append(segments.element);
  at["save-segments"].addEventListener("click", () => download("segments.csv", segments.csv(state)));
}
const savedRows = () => exportRows(model, shownIndices, answer, answer.compared);
const savedPicture = () => exportPicture([document.title, groupText(state) + (state.other ? ` compared with ${groupText(state.other)}` : "")], savedRows());
at.copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(exportText(savedRows(), "\t"));
    say("Copied.");
  } catch {
    say("This browser does not let the page copy; download the CSV instead.");
  }
  setText(at.count, at.said.textContent);
});
at.csv.addEventListener("click", () => download("distributions.csv", exportText(savedRows(), ",")));
at.svg.addEventListener("click", () => download("distributions.svg", savedPicture(), "image/svg+xml"));
at.png.addEventListener("click", async () => download("distributions.png", await exportPixels(savedPicture()), "image/png"));
at.more.addEventListener("click", () => {
  limit += PAGE;
  drawCards();
});
VIEWS.forEach((name, place) => {
  const tab = at[`tab-${name}`];
  tab.addEventListener("click", () => view(() => (state.view = name)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(place + step + VIEWS.length) % VIEWS.length];
    view(() => (state.view = next));
    at[`tab-${next}`].focus();
  });
});
moveByArrows(at.cards);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.matches("input, select")) {
    event.preventDefault();
    view(() => (state.view = "answers"));
    at.find.focus();
  } else if (event.key === "Escape" && event.target === at.find && state.find) {
    event.preventDefault();
    view(() => (state.find = ""));
  }
});
addEventListener("hashchange", () => {
  // Our own changes have been shown already; this is the back button, a bookmark or an edited address.
  if (location.hash === state.toHash(model)) return;
  ({ state, unknown } = State.fromHash(location.hash, model));
  update();
});
new ResizeObserver(() => state.view === "map" && linkMap.show(answer, state)).observe(at.nodes);

/** Return how many components there are, or how many hidden variables. */
function aboutHidden() {
  const { hidden, owners, leaves } = model.form;
  if (!model.isTree) return `${number(owners.length)} ${owners.length === 1 ? "component" : "components"}`;
  const trees = leaves.length > 1 ? `${number(leaves.length)} trees with ` : "";
  return `${trees}${number(hidden.length)} hidden variables of up to ${number(Math.max(...hidden.map(({ states }) => states)))} states`;
}

const about = [`${number(model.variables.length)} ${model.variables.length === 1 ? "variable" : "variables"}`, aboutHidden()];
if (model.records !== null) about.unshift(`learned from ${recordsText()}`);
if (replicates) {
  document.documentElement.classList.add("has-ranges");
  about.push(`${percent(replicates.level).replace(".0", "")} intervals from ${number(replicates.count)} replicates`);
}
if (model.observed) about.push(`with exact counts of ${number(model.observed.pairs)} ${model.observed.pairs === 1 ? "pair" : "pairs"} of variables`);
at.about.textContent = about.join(" · ");
update();

/** For the browser's console: the exact numbers behind what is shown. */
window.twoway = {
  distribution(name) {
    const index = model.variables.findIndex((variable) => variable.name === name);
    const { categories } = model.variables[index];
    return Object.fromEntries(categories.map((text, code) => [text, answer.shares[model.offsets[index] + code]]));
  },
  shares: () => answer.shares && [...answer.shares],
  weights: () => answer.weights && [...answer.weights],
  logProbability: () => answer.logProbability,
  /** The names of the segments, as shown. */
  names: () => segments && segments.names(state),
  /** What was observed of a variable given what is known: records for each category, and their number; null where it was not counted. */
  observed: (name) => model.observed && model.observed.of(model.variables.findIndex((variable) => variable.name === name), state),
  /** The ends of the interval of every difference from the other group; null where there is none. */
  differences: () => answer.beside && Array.from(answer.shares, (_, cell) => differenceRange(answer, cell)),
  /** The ends of the interval of every share; null if the model has none. */
  intervals: () => answer.surroundings && Array.from(answer.shares, (share, cell) => answer.surroundings.share(share, cell)),
};
