// The arithmetic: Pr(i1, …, iN) = Σ_f weights[f] · Π_n factors[n][i_n, f], and what evidence makes of it.

function decodeBytes(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Return the numbers that base64 holds, bit by bit: doubles, or floats of single precision. */
function decodeNumbers(text, isSingle = false) {
  const bytes = decodeBytes(text);
  const view = new DataView(bytes.buffer);
  const size = isSingle ? 4 : 8;
  return Float64Array.from({ length: bytes.length / size }, (_, at) => (isSingle ? view.getFloat32(4 * at, true) : view.getFloat64(8 * at, true)));
}

/** Weights and factors. A cell is a category of some variable; cells are numbered through, from offset to offset. */
class Mixture {
  constructor(weights, factors, offsets) {
    this.weights = weights;
    this.factors = factors;
    this.offsets = offsets;
    this.rank = weights.length;
  }

  /**
   * Return what is probable given some evidence: the logarithm of the evidence's own probability, and, unless that
   * is -Infinity, the components' weights and the probability of every cell.
   *
   * evidence: from a variable's position to the set of categories any of which may hold.
   * components: those that may hold; all of them where none is named.
   */
  given(evidence, components) {
    const { rank, factors, offsets } = this;
    // Logarithms, since many small probabilities multiply to less than a number can hold.
    const logs = this.weights.map((weight, f) => (components.size && !components.has(f) ? -Infinity : Math.log(weight)));
    const masses = new Map();
    for (const [index, codes] of evidence) {
      const mass = new Float64Array(rank);
      for (const code of codes) {
        const row = (offsets[index] + code) * rank;
        for (let f = 0; f < rank; f++) mass[f] += factors[row + f];
      }
      for (let f = 0; f < rank; f++) logs[f] += Math.log(mass[f]);
      masses.set(index, mass);
    }
    const highest = logs.reduce((one, other) => Math.max(one, other), -Infinity);
    if (highest === -Infinity) return { logProbability: -Infinity, weights: null, shares: null };
    const weights = logs.map((log) => Math.exp(log - highest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (let f = 0; f < rank; f++) weights[f] /= total;
    const shares = new Float64Array(offsets.at(-1));
    for (let index = 0; index < offsets.length - 1; index++) {
      this.#fillShares(shares, index, weights, evidence.get(index), masses.get(index));
    }
    return { logProbability: Math.min(0, highest + Math.log(total)), weights, shares };
  }

  /** Put the probabilities of one variable's categories into shares; those that evidence rules out stay 0. */
  #fillShares(shares, index, weights, codes, mass) {
    const { rank, factors, offsets } = this;
    const scaled = mass ? weights.map((weight, f) => (mass[f] > 0 ? weight / mass[f] : 0)) : weights;
    let total = 0;
    for (let cell = offsets[index]; cell < offsets[index + 1]; cell++) {
      if (codes && !codes.has(cell - offsets[index])) continue;
      let share = 0;
      for (let f = 0, at = cell * rank; f < rank; f++, at++) share += scaled[f] * factors[at];
      shares[cell] = share;
      total += share;
    }
    // The total is 1 but for rounding; divided by it, what is certain has a share of exactly 1.
    for (let cell = offsets[index]; cell < offsets[index + 1]; cell++) shares[cell] /= total;
  }
}

/** The model that the page carries, with the names of things. */
class Model extends Mixture {
  constructor(described) {
    const offsets = [0];
    for (const { categories } of described.variables) offsets.push(offsets.at(-1) + categories.length);
    super(decodeNumbers(described.weights), decodeNumbers(described.factors), offsets);
    this.records = described.records;
    this.variables = described.variables;
    this.links = described.links;
    this.prior = this.given(new Map(), new Set());
  }

  /** Return half the sum of absolute differences of one variable's distribution from that without evidence. */
  change(index, shares) {
    let sum = 0;
    for (let cell = this.offsets[index]; cell < this.offsets[index + 1]; cell++) {
      sum += Math.abs(shares[cell] - this.prior.shares[cell]);
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
