"""Measure how fast the explorer's page responds to a click in headless Chromium, and its size.

    python benchmarks/explorer.py                clicks
    python benchmarks/explorer.py --intervals    how far the page's intervals are from those of all replicates

Prints a Markdown table. A click is timed in the page, from before the click until the frame that shows its result has
been drawn, with every card there; the first clicks warm up the browser's compiler and are not counted. The processor
time is that of the page's own thread for the click and that frame, from the browser's trace: it shows
what to expect on an idle machine.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import twoway as tw

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from browser.chromium import open_browser
from hidden_trees import random_tree
from random_models import sized
from reference.replicates import like, unpack

from twoway.explorer.page import describe_page_replicates, page_numbers
from twoway.model.trees import Trees

WARM_UP = 5
CLICKS = 25
SIZES = [(5, 4, 3), (50, 5, 10), (300, 5, 20), (1000, 5, 20)]
"""Variables, categories and rank of models with one hidden variable."""
TREES = [(20, 5, 6), (100, 5, 6)]
"""Variables, categories and states of models with a hidden variable for each visible one."""
ORDERS = {"data": "as in the data", "changed": "changed most first"}
HEAD = ["model", "file", "time to write", "card order", "click to redraw: median (best, worst)", "processor time"]

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
        await drawn;
        times.push(performance.now() - start);
    }
    return times;
}"""


def replicated(pmf: tw.JointPMF) -> tw.Bootstrap:
    """Return a model with 200 synthetic replicates, as far from it as those of a few hundred records."""
    numbers = page_numbers(pmf)
    moved = numbers * np.random.default_rng(0).gamma(30, 1 / 30, (201, len(numbers)))
    several = [tw.JointPMF.from_trees(pmf.schema, like(pmf.trees, one)) for one in moved]
    return tw.Bootstrap(pmf, tuple(several[1:]), several[0])


def models() -> Iterator[tuple[str, tw.JointPMF]]:
    for n_variables, n_categories, rank in SIZES:
        pmf = tw.datasets.dirichlet_rows(n_variables, n_categories, rank, seed=0)
        yield f"{n_variables} × {n_categories}, rank {rank}", pmf
    for n_variables, n_categories, n_states in TREES:
        parents = tuple(int(parent) for parent in (np.arange(n_variables) - 1) // 2)
        sizes = (n_categories,) * n_variables
        tree = random_tree((-1, *parents[1:]), 0, (n_states,) * n_variables, sizes, range(n_variables))
        title = f"{n_variables} × {n_categories}, tree of {n_variables} hidden variables with {n_states} states"
        yield title, tw.JointPMF.from_trees(sized(sizes), Trees(np.ones(1), (tree,)))


def measure(title: str, pmf: tw.JointPMF, *, has_intervals: bool) -> None:
    model = replicated(pmf) if has_intervals else pmf
    cells = np.random.default_rng(0).integers(0, 10**6, WARM_UP + CLICKS).tolist()
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        path = Path(folder) / "page.html"
        start = time.perf_counter()
        tw.explore(model, path)
        written = time.perf_counter() - start
        for order, order_title in ORDERS.items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(f"{path.as_uri()}#!order={order}")
            page.wait_for_selector("#cards .row")
            page.evaluate(TIME_CLICKS, cells[:WARM_UP])
            browser.start_tracing(page=page, path=Path(folder) / "trace", categories=["devtools.timeline", "cc"])
            drawn = page.evaluate(TIME_CLICKS, cells[WARM_UP:])
            browser.stop_tracing()
            used = processor_times(json.loads((Path(folder) / "trace").read_bytes())["traceEvents"])
            page.close()
            row = [
                title + ", with intervals" * has_intervals,
                f"{path.stat().st_size / 1e6:.2f} MB",
                f"{written:.2f} s",
                order_title,
                f"{statistics.median(drawn):.0f} ms ({min(drawn):.0f}, {max(drawn):.0f})",
                f"{statistics.median(used):.0f} ms",
            ]
            print("| " + " | ".join(row) + " |", flush=True)


def processor_times(events: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of the page's thread for each click: its handler, and the next frame."""
    whole = [event for event in events if event.get("ph") == "X" and "tdur" in event]
    clicks = [
        event
        for event in whole
        if event["name"] == "EventDispatch" and event.get("args", {}).get("data", {}).get("type") == "click"
    ]
    frames = sorted((event["ts"], event["tdur"]) for event in whole if event["name"] == "ProxyMain::BeginMainFrame")
    times = []
    for click in clicks:
        frame = next((used for start, used in frames if start >= click["ts"]), None)
        if frame is not None:
            times.append((click["tdur"] + frame) / 1000)
    return times


def compare_intervals() -> None:
    """Print width and coverage of the page's intervals and of those of all replicates."""
    head = ["model", "page's replicates", "width, page / all: median (5 to 95 %)", "coverage, all", "coverage, page"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for n_variables, rank, n_records, n in ((20, 6, 5000, 200), (300, 20, 2000, 60)):
        truth = tw.datasets.dirichlet_rows(n_variables, 5, rank, seed=0)
        records = tw.datasets.draw_records(truth, n_records, observed=0.7, seed=1)
        pmf = tw.fit(records, rank=rank, solver="em", starts=1)
        boot = tw.bootstrap(pmf, records, n=n)
        described = describe_page_replicates(boot)
        carried = unpack(described, boot)
        widths, held, held_in_page = [], [], []
        for one, other in zip(truth.schema.names[:20], truth.schema.names[1:], strict=False):
            for given in ({}, {other: 0}):
                exact, near = boot.given(given).marginal(one), carried.given(given).marginal(one)
                true = truth.given(given).marginal(one).array
                widths.append((near.high.array - near.low.array) / (exact.high.array - exact.low.array))
                held.append((exact.low.array <= true) & (true <= exact.high.array))
                held_in_page.append((near.low.array <= true) & (true <= near.high.array))
        ratio = np.quantile(np.concatenate(widths), [0.05, 0.5, 0.95])
        row = [
            f"{n_variables} × 5, rank {rank}, {n_records} records, {n} replicates",
            f"{described['count']} in {described['bits']} bits",
            f"{ratio[1]:.2f} ({ratio[0]:.2f} to {ratio[2]:.2f})",
            f"{np.mean(np.concatenate(held)):.0%}",
            f"{np.mean(np.concatenate(held_in_page)):.0%}",
        ]
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    if "--intervals" in sys.argv[1:]:
        compare_intervals()
        return
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for title, pmf in models():
        for has_intervals in (False, True):
            measure(title, pmf, has_intervals=has_intervals)


if __name__ == "__main__":
    main()
