// How sure an answer is: replicates are models of what might have been observed instead, and the same is asked of them.

/** Scales on which the spread of an answer does not depend on its value, there and back. */
const PROBABILITY = {
  to: (share) => Math.asin(Math.sqrt(Math.min(1, Math.max(0, share)))),
  back: (angle) => Math.sin(Math.min(Math.PI / 2, Math.max(0, angle))) ** 2,
};
const REAL = { to: (value) => value, back: (value) => value };

/** The replicates in the page: differences from the model on the scale above, in few bits each. */
class Replicates {
  #several;

  constructor(model, { level, reflected, bits, count, steps, codes }) {
    this.level = level;
    this.reflected = reflected;
    this.count = count;
    const packed = decodeNumbers(codes);
    const step = decodeNumbers(steps);
    const { form, numbers } = model;
    const angles = numbers.map(PROBABILITY.to);
    const most = 2 ** (bits - 1) - 1;
    const code = (at) => ((packed[Math.floor((at * bits) / 8)] >> ((at * bits) % 8)) & (2 ** bits - 1)) - most;
    // Each column of a matrix has a step of its own.
    const stepAt = new Float64Array(numbers.length);
    let before = 0;
    for (const { at, rows, columns } of form.matrices) {
      for (let place = 0; place < rows * columns; place++) stepAt[at + place] = step[before + (place % columns)];
      before += columns;
    }
    // The first is the center, the fit that replicates differ from by chance.
    this.#several = Array.from({ length: 1 + count }, (_, number) => {
      const moved = angles.map((angle, at) => PROBABILITY.back(angle + stepAt[at] * code(number * angles.length + at)));
      return restored(moved, form);
    });
  }

  /** Return what the answers given some evidence can be surrounded with, or null where replicates rule the evidence out. */
  given(evidence, components) {
    const [center, ...replicates] = this.#several.map((one) => one.given(evidence, components));
    return center.shares && replicates.some((one) => one.shares) ? new Surroundings(center, replicates, this) : null;
  }
}

/** Return trees whose columns sum to one. */
function restored(numbers, form) {
  for (const { at, rows, columns } of form.matrices) {
    for (let column = at; column < at + columns; column++) {
      let sum = 0;
      for (let row = 0; row < rows; row++) sum += numbers[column + row * columns];
      for (let row = 0; row < rows; row++) numbers[column + row * columns] /= sum;
    }
  }
  return new Trees(form, numbers);
}

/** What the replicates answer to one question, from which any number in the answer gets its interval. */
class Surroundings {
  #center;
  #all;
  #possible;
  #level;
  #reflected;

  constructor(center, replicates, { level, reflected }) {
    this.#center = center;
    this.#all = replicates;
    this.#possible = replicates.filter((one) => one.shares);
    this.#level = level;
    this.#reflected = reflected;
  }

  share(estimate, cell) {
    return this.#interval(estimate, (one) => one.shares[cell], PROBABILITY);
  }

  weight(estimate, component) {
    return this.#interval(estimate, (one) => one.weights[component], PROBABILITY);
  }

  /** The interval of the evidence's own probability; those that rule it out count. */
  chance(estimate) {
    return this.#interval(estimate, (one) => Math.exp(one.logProbability), PROBABILITY, this.#all);
  }

  mean(estimate, meanOf) {
    return this.#interval(estimate, (one) => meanOf(one.shares), REAL);
  }

  /** The interval of how much a share is more than that of another group, whose surroundings these are. */
  difference(estimate, other, cell) {
    const apart = this.#all.flatMap((one, number) => {
      const second = other.#all[number];
      return one.shares && second.shares ? [{ value: one.shares[cell] - second.shares[cell] }] : [];
    });
    if (!apart.length) return null;
    const center = { value: this.#center.shares[cell] - other.#center.shares[cell] };
    return this.#interval(estimate, (one) => one.value, REAL, apart, center);
  }

  /** Return low and high: the truth differs from the estimate as replicates from the center, or the other way round. */
  #interval(estimate, pick, { to, back }, replicates = this.#possible, center = this.#center) {
    const spread = Float64Array.from(replicates, (one) => to(pick(one))).sort();
    const middle = to(pick(center));
    const here = to(estimate);
    const tail = (1 - this.#level) / 2;
    const [below, above] = [quantile(spread, tail) - middle, quantile(spread, 1 - tail) - middle];
    return {
      low: Math.min(estimate, back(here + (this.#reflected ? -above : below))),
      high: Math.max(estimate, back(here + (this.#reflected ? -below : above))),
    };
  }
}

/** Return Weibull's quantile of sorted numbers. */
function quantile(sorted, share) {
  const place = Math.min(sorted.length - 1, Math.max(0, (sorted.length + 1) * share - 1));
  const below = Math.floor(place);
  const above = Math.min(sorted.length - 1, below + 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}
