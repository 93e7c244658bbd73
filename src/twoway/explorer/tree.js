// The map of a model with several hidden variables: its tree. Every variable has a row of its own, to the left or to the
// right of the middle, and stands beyond the hidden variable that it is attached to: no label can cover another, or a line.

const ROW = 24;
const LONGEST_STEP = 15;
/** With more nodes than this, labels are smaller. */
const DENSE = 60;

/** Return the node of a hidden variable, where those of variables are their positions. */
const jointOf = (hidden) => -1 - hidden;

/** Return the nodes of a tree, and its links with their mutual information in nats, strongest first. */
function chooseTree(model, tree) {
  const { hidden, leaves, offsets } = model.form;
  const joints = hidden.flatMap((one, place) => (one.tree === tree ? [{ ...one, node: jointOf(place) }] : []));
  const links = [
    ...leaves[tree].map(({ home, at }, index) => [jointOf(home), index, informationOf(model, at, offsets[index + 1] - offsets[index], hidden[home])]),
    ...joints.filter(({ parent }) => parent >= 0).map(({ node, parent, at, states }) => [jointOf(parent), node, informationOf(model, at, states, hidden[parent])]),
  ];
  return { shown: [...leaves[tree].keys(), ...joints.map(({ node }) => node)], links: links.sort((one, other) => other[2] - one[2]) };
}

/** Return how much the rows of a matrix tell about the states of a hidden variable, which its columns are for, in nats. */
function informationOf({ prior, numbers }, at, rows, { tree, first, states }) {
  let sum = 0;
  for (let row = 0; row < rows; row++) {
    const joint = Array.from({ length: states }, (_, z) => (numbers[at + row * states + z] * prior.weights[first + z]) / (numbers[tree] || 1));
    const share = joint.reduce((total, one) => total + one, 0);
    joint.forEach((one, z) => (sum += one > 0 ? one * Math.log(numbers[at + row * states + z] / share) : 0));
  }
  return Math.max(0, sum);
}

/** Return the part of a tree beyond a node: its branches, and the rows that it takes. */
function grow(beside, node, from) {
  return join(node, beside.get(node).filter((next) => next !== from).map((next) => grow(beside, next, node)));
}

/** Return branches as one. Variables of the node itself stand in the middle, where the lines to them are short. */
function join(node, inner) {
  const [joints, leaves] = [inner.filter((branch) => branch.node < 0), inner.filter((branch) => branch.node >= 0)];
  const branches = [...joints.slice(0, joints.length / 2), ...leaves, ...joints.slice(joints.length / 2)];
  return { node, branches, rows: Math.max(1, inner.reduce((sum, { rows }) => sum + rows, 0)) };
}

/** Return the tree as seen from the hidden variable on no side of which there is more than half of it. */
function growFromMiddle(beside, node, from = null) {
  const whole = grow(beside, node, null);
  const larger = whole.branches.find((branch) => branch.node < 0 && branch.node !== from && branch.rows > whole.rows / 2);
  return larger ? growFromMiddle(beside, larger.node, node) : whole;
}

/** Return how far each step to the side may reach, so that all labels in a branch end within so much room. */
function longestStep({ node, branches }, room, widths, depth = 0) {
  const own = depth ? Math.max(0, room - widths.get(node)) / depth : LONGEST_STEP;
  return Math.min(own, ...branches.map((branch) => longestStep(branch, room, widths, depth + 1)));
}

/** Return where each node is, in percent, where lines reach it, and how many rows there are; widths are in percent. */
function branchOut({ links }, widths) {
  const beside = new Map();
  for (const [one, other] of links) {
    for (const [here, there] of [[one, other], [other, one]]) beside.set(here, [...(beside.get(here) ?? []), there]);
  }
  const { node: root, branches } = growFromMiddle(beside, links[0][0]);
  const sides = [[], []];
  const rowsOf = (side) => side.reduce((sum, branch) => sum + branch.rows, 0);
  for (const branch of branches.toSorted((one, other) => other.rows - one.rows)) {
    sides[rowsOf(sides[0]) <= rowsOf(sides[1]) ? 0 : 1].push(branch);
  }
  const rows = Math.max(1, ...sides.map(rowsOf));
  const places = new Map();
  /** Place a branch so far from the middle, from a row on; return the row of its node. */
  const place = (branch, distance, first, direction) => {
    const step = longestStep(branch, 49.5 - distance, widths);
    let next = first;
    const inside = branch.branches.map((inner) => {
      next += inner.rows;
      return place(inner, distance + step, next - inner.rows, direction);
    });
    const row = inside.length ? (inside[0] + inside.at(-1)) / 2 : first + 0.5;
    const end = 50 + direction * distance;
    const { node } = branch;
    places.set(node, { x: end + (node < 0 ? 0 : (direction * widths.get(node)) / 2), y: (100 * row) / rows, end });
    return row;
  };
  sides.forEach((side, at) => place(join(root, side), 0, (rows - rowsOf(side)) / 2, at ? -1 : 1));
  places.set(root, { x: 50, y: 50, end: 50 });
  return { places, rows };
}
