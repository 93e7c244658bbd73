// The arithmetic: hidden variables on trees, visible ones attached to them, and what evidence makes of it. A model with one
// hidden variable is a tree of one. Logarithms, where many small probabilities multiply to less than a number can hold.

const KINDS = { f8: Float64Array, f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

/** Return the numbers that base64 holds, bit by bit. The low byte comes first, as in every machine with a browser. */
function decodeNumbers({ kind, base64 }) {
  return new KINDS[kind](Uint8Array.from(atob(base64), (character) => character.charCodeAt(0)).buffer);
}

/**
 * The form of a mixture of trees, and where its matrices of probabilities begin among its numbers.
 *
 * A cell is a category of some variable; cells are numbered through, from offset to offset. So are the hidden variables
 * of all trees, each behind its parent, and their states.
 */
class Form {
  /** Where each matrix begins, its rows and its columns, which sum to one; the shares of trees come first. */
  matrices = [];
  /** The hidden variables: their tree, parent (-1 for a root), number of states, first state and matrix. */
  hidden = [];
  /** For each tree and variable the hidden variable that it is attached to, and its matrix. */
  leaves = [];
  /** The hidden variable of each state. */
  owners = [];
  #end = 0;

  constructor(trees, sizes) {
    this.offsets = [0];
    for (const size of sizes) this.offsets.push(this.offsets.at(-1) + size);
    this.#add(trees.length, 1);
    trees.forEach(({ parents, states, homes }, tree) => {
      const root = this.hidden.length;
      parents.forEach((above, place) => {
        const parent = above < 0 ? -1 : root + above;
        const columns = parent < 0 ? 1 : this.hidden[parent].states;
        this.hidden.push({ tree, parent, states: states[place], columns, first: this.owners.length, at: this.#add(states[place], columns) });
        for (let state = 0; state < states[place]; state++) this.owners.push(root + place);
      });
      this.leaves.push(homes.map((home, index) => ({ home: root + home, at: this.#add(sizes[index], states[home]) })));
    });
  }

  #add(rows, columns) {
    const at = this.#end;
    this.matrices.push({ at, rows, columns });
    this.#end += rows * columns;
    return at;
  }
}

/** A mixture of trees. */
class Trees {
  constructor(form, numbers) {
    this.form = form;
    this.offsets = form.offsets;
    this.numbers = numbers;
  }

  /**
   * Return what is probable given some evidence: the logarithm of the evidence's own probability, and, unless that
   * is -Infinity, the probability of every hidden state (weights) and of every cell (shares).
   *
   * evidence: from a variable's position to the set of categories any of which may hold.
   * components: the hidden states that may hold, for each hidden variable of which one is named.
   */
  given(evidence, components) {
    const masses = this.#masses(evidence);
    const below = this.#below(masses, components);
    const { messages, logs } = this.#passUp(below, components);
    const highest = Math.max(...logs);
    if (highest === -Infinity) return { logProbability: -Infinity, weights: null, shares: null };
    const logTotal = highest + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - highest), 0));
    const weights = this.#passDown(below, messages, logs.map((log) => Math.exp(log - logTotal)));
    const shares = new Float64Array(this.offsets.at(-1));
    for (let index = 0; index < this.offsets.length - 1; index++) {
      this.#fillShares(shares, index, weights, evidence.get(index), masses.get(index));
    }
    return { logProbability: Math.min(0, logTotal), weights, shares };
  }

  /** Return for each variable that something is known of its likelihood in each state of its home in each tree. */
  #masses(evidence) {
    const { form, numbers } = this;
    return new Map([...evidence].map(([index, codes]) => [index, form.leaves.map((leaves) => {
      const { home, at } = leaves[index];
      const mass = new Float64Array(form.hidden[home].states);
      for (const code of codes) for (let z = 0; z < mass.length; z++) mass[z] += numbers[at + code * mass.length + z];
      return mass;
    })]));
  }

  /** Return the logarithm of the likelihood in each state of each hidden variable, null where nothing is known. */
  #below(masses, components) {
    const { hidden, leaves, owners } = this.form;
    const below = hidden.map(() => null);
    const at = (here) => (below[here] ??= new Float64Array(hidden[here].states));
    for (const [index, inTrees] of masses) {
      inTrees.forEach((mass, tree) => {
        const known = at(leaves[tree][index].home);
        for (let z = 0; z < mass.length; z++) known[z] += Math.log(mass[z]);
      });
    }
    for (const here of new Set([...components].map((state) => owners[state]))) {
      const known = at(here);
      for (let z = 0; z < known.length; z++) if (!components.has(hidden[here].first + z)) known[z] = -Infinity;
    }
    return below;
  }

  /** Add to each hidden variable what those below it tell; return that, and the logarithm of each tree's probability. */
  #passUp(below, components) {
    const { hidden, leaves, owners } = this.form;
    const { numbers } = this;
    const messages = hidden.map(() => null);
    const logs = leaves.map((_, tree) => Math.log(numbers[tree]));
    for (let here = hidden.length - 1; here >= 0; here--) {
      const { tree, parent, columns, at } = hidden[here];
      if (!below[here]) continue;
      const message = Float64Array.from({ length: columns }, (_, y) => logDot(numbers, at + y, columns, below[here]));
      messages[here] = message;
      if (parent < 0) {
        logs[tree] += message[0];
      } else {
        below[parent] ??= new Float64Array(columns);
        for (let y = 0; y < columns; y++) below[parent][y] += message[y];
      }
    }
    // A state belongs to one tree, and the others are ruled out.
    for (const state of components) logs.forEach((_, tree) => hidden[owners[state]].tree === tree || (logs[tree] = -Infinity));
    return { messages, logs };
  }

  /** Return the probability of each state of each hidden variable, from the roots down. */
  #passDown(below, messages, treeShares) {
    const { hidden, owners } = this.form;
    const { numbers } = this;
    const weights = new Float64Array(owners.length);
    hidden.forEach(({ tree, parent, states, columns, first, at }, here) => {
      const known = below[here];
      for (let z = 0; z < states; z++) {
        for (let y = 0, place = at + z * columns; y < columns; y++, place++) {
          const above = parent < 0 ? treeShares[tree] : weights[hidden[parent].first + y];
          if (!(above > 0 && numbers[place] > 0)) continue;
          // Without evidence below, a state follows its parent's as it always does.
          weights[first + z] += above * (known ? Math.exp(Math.log(numbers[place]) + known[z] - messages[here][y]) : numbers[place]);
        }
      }
    });
    return weights;
  }

  /** Put the probabilities of one variable's categories into shares; those that evidence rules out stay 0. */
  #fillShares(shares, index, weights, codes, masses) {
    const { form, numbers, offsets } = this;
    form.leaves.forEach((leaves, tree) => {
      const { home, at } = leaves[index];
      const { first, states } = form.hidden[home];
      let [scaled, from] = [weights, first];
      if (masses) [scaled, from] = [masses[tree].map((mass, z) => (mass > 0 ? weights[first + z] / mass : 0)), 0];
      for (let cell = offsets[index], place = at; cell < offsets[index + 1]; cell++, place += states) {
        if (codes && !codes.has(cell - offsets[index])) continue;
        let share = 0;
        for (let z = 0; z < states; z++) share += scaled[from + z] * numbers[place + z];
        shares[cell] += share;
      }
    });
    // The total is 1 but for rounding; divided by it, what is certain has a share of exactly 1.
    let total = 0;
    for (let cell = offsets[index]; cell < offsets[index + 1]; cell++) total += shares[cell];
    for (let cell = offsets[index]; cell < offsets[index + 1]; cell++) shares[cell] /= total;
  }
}

/** Return log Σ numbers[at + n · step] · exp(logs[n]), however small the terms are. */
function logDot(numbers, at, step, logs) {
  let top = -Infinity;
  for (let n = 0; n < logs.length; n++) if (numbers[at + n * step] > 0 && logs[n] > top) top = logs[n];
  if (top === -Infinity) return top;
  let sum = 0;
  for (let n = 0; n < logs.length; n++) sum += numbers[at + n * step] * Math.exp(logs[n] - top);
  return top + Math.log(sum);
}

/** The model in the page, with the names of things. */
class Model extends Trees {
  constructor(described) {
    const sizes = described.variables.map(({ categories }) => categories.length);
    super(new Form(described.trees, sizes), decodeNumbers(described.numbers));
    this.records = described.records;
    this.variables = described.variables;
    this.links = described.links;
    this.segments = described.segments;
    this.observed = described.counts && new Observed(described.counts, this.offsets);
    this.silent = described.silent && decodeNumbers(described.silent);
    this.prior = this.given(new Map(), new Set());
    /** Whether there are several hidden variables. */
    this.isTree = this.form.hidden.length > 1;
    /** The number of each hidden state: "2" of a single hidden variable, "7.2" of the seventh. */
    this.stateNumbers = this.form.owners.map((owner, state) => `${this.isTree ? `${owner + 1}.` : ""}${state - this.form.hidden[owner].first + 1}`);
  }

  /** Return the variables attached to a hidden variable. */
  attachedTo(hidden) {
    const leaves = this.form.leaves[this.form.hidden[hidden].tree];
    return leaves.flatMap(({ home }, index) => (home === hidden ? [index] : []));
  }

  /** Return a hidden variable in words. */
  hiddenName(hidden) {
    const names = this.attachedTo(hidden).map((index) => this.variables[index].name);
    const { tree } = this.form.hidden[hidden];
    const inTree = this.form.leaves.length > 1 ? ` in tree ${tree + 1}` : "";
    return `hidden variable ${hidden + 1}${inTree}${names.length ? ` (${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""})` : ""}`;
  }

  /** Return whether no table shows two variables together; where there is `silent`. */
  isSilent(index, other) {
    const bit = index * this.variables.length + other;
    return (this.silent[bit >> 3] >> (bit & 7)) % 2 === 1;
  }

  /** Return half the sum of absolute differences of one variable's distribution from that without evidence. */
  change(index, shares, from = this.prior.shares) {
    let sum = 0;
    for (let cell = this.offsets[index]; cell < this.offsets[index + 1]; cell++) {
      sum += Math.abs(shares[cell] - from[cell]);
    }
    return sum / 2;
  }

  /** Return the expected value of a variable whose categories have numbers, else null. */
  mean(index, shares) {
    const { values } = this.variables[index];
    return values && values.reduce((sum, value, code) => sum + value * shares[this.offsets[index] + code], 0);
  }

  /** Return the entropy of one variable in nats, without evidence. */
  entropy(index) {
    let sum = 0;
    for (let cell = this.offsets[index]; cell < this.offsets[index + 1]; cell++) {
      const share = this.prior.shares[cell];
      if (share > 0) sum -= share * Math.log(share);
    }
    return sum;
  }

  /** Return the links of a variable, strongest first: [the other variable, mutual information in nats]. */
  linksOf(index) {
    return this.links
      .filter(([a, b]) => a === index || b === index)
      .map(([a, b, information]) => [a === index ? b : a, information]);
  }
}
