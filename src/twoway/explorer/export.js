// What is shown, to take along: as text for a sheet, as CSV, and as a picture.

const HEADINGS = ["variable", "category", "share", "low", "high", "compared_share", "difference", "difference_low", "difference_high", "overall_share"];
const PICTURE = { width: 680, left: 24, bars: 300, barWidth: 270, line: 22, head: 34 };
/** Browsers draw no canvas that is higher. */
const MOST_PIXELS = 16000;

/** Return a row for each category of some variables: names, shares, the ends of intervals, and the other group. */
function exportRows(model, indices, answer, compared) {
  return indices.flatMap((index) =>
    model.variables[index].categories.map((category, code) => {
      const cell = model.offsets[index] + code;
      const share = answer.shares ? answer.shares[cell] : null;
      const other = compared?.shares ? compared.shares[cell] : null;
      const range = share !== null && answer.surroundings ? answer.surroundings.share(share, cell) : null;
      const apart = other === null || share === null ? null : differenceRange(answer, cell);
      return {
        variable: model.variables[index].name,
        category,
        share,
        low: range?.low ?? null,
        high: range?.high ?? null,
        compared_share: other,
        difference: share !== null && other !== null ? share - other : null,
        difference_low: apart?.low ?? null,
        difference_high: apart?.high ?? null,
        overall_share: model.prior.shares[cell],
      };
    }),
  );
}

/** Return rows as text, of the columns that hold something. */
function exportText(rows, delimiter) {
  const names = HEADINGS.filter((name) => rows.some((row) => row[name] !== null));
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((cells) => `${cells.map((value) => csvCell(value, delimiter)).join(delimiter)}\r\n`).join("");
}

/** Return a picture of rows as SVG, in the colours of the page. */
function exportPicture(title, rows) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const parts = [];
  const text = (x, y, content, look = "", fill = "ink") => parts.push(`<text x="${x}" y="${y}" fill="${colour(fill)}" ${look}>${exportEscaped(content)}</text>`);
  const rectangle = (x, y, width, height, fill) => parts.push(`<rect x="${x}" y="${y}" width="${width.toFixed(2)}" height="${height}" rx="2" fill="${colour(fill)}"/>`);
  const { width, left, bars, barWidth, line, head } = PICTURE;
  let y = 34;
  for (const said of title) {
    text(left, y, exportCut(said, 88), 'font-weight="600" font-size="15"');
    y += 22;
  }
  let variable = null;
  for (const row of rows) {
    if (row.variable !== variable) {
      variable = row.variable;
      y += head;
      text(left, y - 8, exportCut(variable, 80), 'font-weight="600"');
    }
    text(left + 10, y + 13, exportCut(row.category, 34));
    const both = row.compared_share !== null;
    rectangle(bars, y + 3, barWidth, both ? 14 : 12, "track");
    if (row.share !== null) rectangle(bars, y + 3, barWidth * row.share, both ? 7 : 12, "bar");
    if (both) rectangle(bars, y + 10, barWidth * row.compared_share, 7, "other");
    const difference = row.difference === null ? "" : points(row.difference);
    text(bars + barWidth + 12, y + 14, `${row.share === null ? "–" : percent(row.share)}  ${difference}`);
    y += line;
  }
  const height = y + 20;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13"><rect width="100%" height="100%" fill="${colour("card")}"/>${parts.join("")}</svg>`;
}

function exportCut(text, length) {
  return [...text].length > length ? `${[...text].slice(0, length - 1).join("")}…` : text;
}

/** Return text as XML holds it; characters that it cannot hold are left out. */
function exportEscaped(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "").replace(/[&<>"]/g, (char) => entities[char]);
}

/** Return an SVG as the bytes of a PNG, twice as fine where that is not too high. */
async function exportPixels(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = Math.min(2, MOST_PIXELS / image.height);
  const canvas = make("canvas", { width: Math.round(image.width * scale), height: Math.round(image.height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
