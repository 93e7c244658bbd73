"""How fast the explorer's page answers a click in headless Chromium, and how large it is.

    python benchmarks/explorer.py [--write docs/explorer.md]

Prints a Markdown table. A click is timed in the page, from before the click until the frame that shows its result has
been drawn, with every card there; the first clicks warm the browser's compiler up and are not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import twoway as tw

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from browser.chromium import open_browser

WARM_UP = 5
CLICKS = 25
SIZES = [(5, 4, 3), (50, 5, 10), (300, 5, 20), (1000, 5, 20)]

# What a frame's callback puts off runs when the frame is drawn. It is asked for before the click, so that it comes
# before what the page itself puts off: the cards out of sight.
TIME_CLICKS = """async (cells) => {
    const times = [];
    for (const cell of cells) {
        const rows = document.querySelectorAll("#cards .row");
        const row = rows[cell % rows.length];
        await new Promise((resolve) => setTimeout(resolve, 60));
        const start = performance.now();
        const drawn = new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
        row.click();
        const scripted = performance.now();
        await drawn;
        times.push([performance.now() - start, scripted - start]);
    }
    return times;
}"""


def measure(n_variables: int, n_categories: int, rank: int) -> list[str]:
    pmf = tw.datasets.dirichlet_rows(n_variables, n_categories, rank, seed=0)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        path = Path(folder) / "page.html"
        start = time.perf_counter()
        tw.explore(pmf, path)
        written = time.perf_counter() - start
        row = [
            f"{n_variables} × {n_categories}, rank {rank}",
            f"{path.stat().st_size / 1e6:.2f} MB",
            f"{written:.2f} s",
        ]
        for order in ("data", "changed"):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{path.as_uri()}#!order={order}")
            page.wait_for_selector("#cards .row")
            cells = np.random.default_rng(0).integers(0, 10**6, WARM_UP + CLICKS).tolist()
            times = page.evaluate(TIME_CLICKS, cells)[WARM_UP:]
            drawn = [both[0] for both in times]
            row.append(f"{statistics.median(drawn):.0f} ms ({max(drawn):.0f})")
            row.append(f"{statistics.median(both[1] for both in times):.0f} ms")
            page.close()
    return row


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    head = [
        "model",
        "file",
        "written in",
        "click to redrawn: median (worst)",
        "of it script",
        "… changed most first",
        "of it script",
    ]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for size in SIZES:
        print("| " + " | ".join(measure(*size)) + " |", flush=True)


if __name__ == "__main__":
    main()
