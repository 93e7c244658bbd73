// What was observed: how many of the records that the model was learned from show each category, alone and with another.

class Observed {
  #offsets;
  #singles;
  #cells;
  #starts = new Map();

  constructor({ singles, pairs, cells, areShares }, offsets) {
    this.#offsets = offsets;
    this.areShares = areShares;
    this.#singles = singles.map(decodeNumbers);
    this.#cells = cells.map(decodeNumbers);
    const positions = decodeNumbers(pairs);
    for (let place = 0, start = 0; place < positions.length; place += 2) {
      const [one, other] = [positions[place], positions[place + 1]];
      this.#starts.set(`${one} ${other}`, start);
      start += this.#size(one) * this.#size(other);
    }
  }

  /** The number of pairs that were counted. */
  get pairs() {
    return this.#starts.size;
  }

  #size(index) {
    return this.#offsets[index + 1] - this.#offsets[index];
  }

  /** Return whether such a state was counted: at most one variable is known, and no component. */
  isAbout({ evidence, components }) {
    return evidence.size < 2 && !components.size;
  }

  /**
   * Return the records with each category of a variable among those that show the evidence, and their number; no count
   * for a category that the evidence rules out. With weights, counts are what records weigh; then also the number of
   * records, and how many they count as. Null where nothing was counted.
   */
  of(index, state) {
    if (!this.isAbout(state)) return null;
    const [[known, codes] = [index, null]] = state.evidence;
    const sums = this.#cells.map((_, row) => Array.from({ length: this.#size(index) }, (_, code) => this.#count(row, index, code, known, codes)));
    const [total, records, squares] = sums.map((numbers) => numbers.reduce((sum, count) => sum + count, 0));
    if (!(total > 0)) return null;
    return { counts: sums[0], total, ...(records === undefined ? {} : { records, effective: (total * total) / squares }) };
  }

  #count(row, index, code, known, codes) {
    if (known === index) return !codes || codes.has(code) ? this.#singles[row][this.#offsets[index] + code] : null;
    const isFirst = index < known;
    const start = this.#starts.get(isFirst ? `${index} ${known}` : `${known} ${index}`);
    if (start === undefined) return 0;
    const width = this.#size(isFirst ? known : index);
    let count = 0;
    for (const other of codes) count += this.#cells[row][start + (isFirst ? code * width + other : other * width + code)];
    return count;
  }
}

/** Return an observed share in words; tables that do not tell their number of records have shares alone. */
function observedText(count, { total, records, effective }, areShares) {
  const share = `observed: ${percent(count / total)}`;
  if (areShares) return share;
  if (records === undefined) return `${share}, ${number(count)} of ${number(total)} records`;
  return `${share} of ${number(records)} records that count as ${number(Math.round(effective))} because of their weights`;
}
