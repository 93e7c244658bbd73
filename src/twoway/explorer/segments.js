// Segments: a heat map of how common each category is in each, under names that the person can change.

class SegmentTable {
  #inputs = [];

  constructor(model, { names, marks }, actions) {
    this.model = model;
    this.given = names;
    this.actions = actions;
    this.shares = names.map((_, segment) => model.given(new Map(), new Set([segment])).shares);
    const head = names.map((name, segment) => {
      const input = make("input", { type: "text", maxLength: 200, ariaLabel: `Name of segment ${segment + 1}`, spellcheck: false });
      input.addEventListener("change", () => this.#rename(segment, input.value.trim()));
      this.#inputs.push(input);
      return make("th", { scope: "col" }, input, make("span", { className: "size" }, percent(model.prior.weights[segment])));
    });
    const body = model.variables.map(({ name, categories }, index) => {
      const title = make("tr", { className: "of" }, make("th", { colSpan: names.length + 2, scope: "colgroup" }, makeLabel(name)));
      const rows = categories.map((text, code) => {
        const cell = model.offsets[index] + code;
        const overall = model.prior.shares[cell];
        const cells = names.map((_, segment) => this.#cell(this.shares[segment]?.[cell] ?? 0, overall, marks[cell * names.length + segment]));
        return make("tr", {}, make("th", { scope: "row" }, makeLabel(text)), make("td", {}, percent(overall)), ...cells);
      });
      return make("tbody", {}, title, ...rows);
    });
    const top = make("thead", {}, make("tr", {}, make("th", {}), make("th", { scope: "col" }, "all"), ...head));
    this.element = make("table", { className: "heat" }, top, ...body);
  }

  #cell(share, overall, mark) {
    const sign = { 1: "+", "-1": "−", 0: "" }[mark];
    const index = overall > 0 ? Math.round((100 * share) / overall) : null;
    const cell = make("td", { className: share > overall ? "more" : "less" }, `${percent(share)}${sign}`, make("small", {}, index === null ? "" : ` ${index}`));
    cell.style.setProperty("--heat", Math.min(1, Math.abs(share - overall) / 0.6).toFixed(3));
    return cell;
  }

  names(state) {
    return state.names ?? this.given;
  }

  show(state) {
    this.names(state).forEach((name, segment) => {
      this.#inputs[segment].value = name;
      this.#inputs[segment].title = name;
    });
  }

  #rename(segment, name) {
    const names = [...this.names(this.actions.state())];
    if (!name || names.some((other, place) => place !== segment && other === name)) {
      this.actions.refuse(name ? `The name ${name} is taken: two segments cannot have the same name.` : "A segment needs a name.");
      return;
    }
    names[segment] = name;
    this.actions.rename(names.every((own, place) => own === this.given[place]) ? null : names);
  }

  /** Return the profiles as CSV, under the names that are shown: shares and indices. */
  csv(state) {
    const names = this.names(state);
    const rows = [["variable", "category", "all", ...names.map((name) => `share: ${name}`), ...names.map((name) => `index: ${name}`)]];
    rows.push(["", "", "", ...names.map((_, segment) => this.model.prior.weights[segment]), ...names.map(() => "")]);
    this.model.variables.forEach(({ name, categories }, index) => {
      categories.forEach((text, code) => {
        const cell = this.model.offsets[index] + code;
        const overall = this.model.prior.shares[cell];
        const own = this.shares.map((shares) => shares?.[cell] ?? 0);
        rows.push([name, text, overall, ...own, ...own.map((share) => (overall > 0 ? (100 * share) / overall : ""))]);
      });
    });
    return rows.map((row) => row.map((value) => csvCell(value)).join(",")).join("\r\n") + "\r\n";
  }
}

/** Return a cell of CSV; text that a spreadsheet would take for a formula gets an apostrophe in front. */
function csvCell(value, delimiter = ",") {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /["\r\n]/.test(text) || text.includes(delimiter) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Let the browser save text, or a blob, as a file. */
function download(name, content, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address));
}
