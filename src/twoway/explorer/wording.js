// Numbers and evidence in words, and elements made of text alone: no label is ever read as HTML.

/** Return an element; properties are set as they are, children are elements or text. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Return a name or label as an element of its own direction, so that no script turns its neighbours around. */
function makeLabel(text, className = "") {
  return make("bdi", { className, title: text.length > 30 ? text : "" }, text);
}

/** Return a share for a person: "34.1%", "<0.1%", "0%". */
function percent(share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  if (share < 1 && share > 0.9995) return ">99.9%";
  if (share === 0) return "0%";
  return `${(100 * share).toFixed(share > 0.99949 ? 0 : 1)}%`;
}

/** Return the difference of two shares in points: "+12.3", "−0.4", or nothing where it would show as zero. */
function points(difference) {
  const text = Math.abs(100 * difference).toFixed(1);
  return text === "0.0" ? "" : `${difference > 0 ? "+" : "−"}${text}`;
}

/** Return the ends of the range of a difference in points: "+8 to +16", "−0.7 to +0.4". */
function pointsRange({ low, high }) {
  const digits = high - low < 0.02 ? 1 : 0;
  return [low, high].map((end) => `${end < 0 ? "−" : "+"}${Math.abs(100 * end).toFixed(digits)}`).join(" to ");
}

const FEW_DIGITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Return a number with few digits: "3.42", "1,785". */
function number(value) {
  return (Math.abs(value) < 1000 ? FEW_DIGITS : WHOLE).format(value);
}

/** Return the ends of a share's range in percent, near 0 and 1 more exactly: "31 to 37", "0.4 to 1.2"; nothing for one point. */
function shareRange({ low, high }) {
  const digits = high < 0.1 || low > 0.9 ? 1 : 0;
  return high - low > 1e-9 ? `${(100 * low).toFixed(digits)} to ${(100 * high).toFixed(digits)}` : "";
}

/** Return the ends of a mean's range: "3.1 to 3.4". */
function meanRange({ low, high }) {
  return `${number(low)} to ${number(high)}`;
}

/** Return how rare something is: "about 1 in 8", "about 1 in 2.3 million", "about 1 in 10³⁰". */
function oneIn(logProbability) {
  const powerOfTen = -logProbability / Math.LN10;
  if (powerOfTen >= 15) {
    const raised = [...String(Math.round(powerOfTen))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    return `about 1 in 10${raised}`;
  }
  const times = Math.exp(-logProbability);
  if (times < 1.5) return "nearly always";
  const rounded = times < 10 ? Math.round(times) : Number(times.toPrecision(2));
  for (const [size, word] of [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]]) {
    if (rounded >= size) return `about 1 in ${Number((rounded / size).toPrecision(2))} ${word}`;
  }
  return `about 1 in ${number(rounded)}`;
}

/** Return text in which case and accents do not matter, to search in. */
function plainText(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}

/** Return a list as a sentence has it: "a", "a or b", "a, b or c". */
function oneOf(texts) {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`;
}
