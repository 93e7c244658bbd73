// The components, which are the states of a hidden variable: how common each is, and which categories stand out in it.

const STANDING_OUT = 8;

/** Return the cells that tell most of a component from all records: [index, code, share in it, share in all]. */
function standingOut(model, component) {
  const { shares } = model.given(new Map(), new Set([component]));
  const found = [];
  if (!shares) return found; // it never occurs
  for (let index = 0; index < model.variables.length; index++) {
    for (let cell = model.offsets[index]; cell < model.offsets[index + 1]; cell++) {
      const within = shares[cell];
      const overall = model.prior.shares[cell];
      if (within > overall) found.push([within * Math.log(within / overall), index, cell - model.offsets[index], within, overall]);
    }
  }
  found.sort((one, other) => other[0] - one[0]);
  return found.slice(0, STANDING_OUT).map(([, ...rest]) => rest);
}

class ComponentCard {
  #row;

  constructor(model, component, actions) {
    this.component = component;
    const name = `${model.isTree ? "State" : "Component"} ${model.stateNumbers[component]}`;
    this.#row = new Row(make("span", { className: "label" }, "how common"), model.prior.weights[component], () => actions.pickComponent(component));
    this.#row.element.ariaLabel = name;
    const facts = standingOut(model, component).map(([index, code, within, overall]) => {
      const { name, categories } = model.variables[index];
      return make(
        "li",
        { className: "row fact" },
        make("span", { className: "label" }, makeLabel(name, "of"), " ", makeLabel(categories[code])),
        make("span", { className: "share" }, percent(within)),
        make("span", { className: "overall" }, `vs ${percent(overall)}`),
        new Track(overall).show(within).element,
      );
    });
    this.element = make(
      "article",
      { className: "card kind", ariaLabel: name },
      make("header", {}, make("h3", {}, name), make("button", { className: "small", type: "button", onclick: () => actions.showComponent(component) }, "everything about it")),
      this.#row.element,
      make("ul", { className: "rows" }, ...facts),
    );
  }

  show(answer, state) {
    const isPressed = state.components.has(this.component);
    const weight = answer.weights ? answer.weights[this.component] : null;
    this.#row.show(weight, isPressed, answer.surroundings && answer.surroundings.weight(weight, this.component));
    this.element.classList.toggle("is-known", isPressed);
  }
}
