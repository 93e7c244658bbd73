"""Compare twoway with other packages, each at its best and in an environment of its own, and write docs/peers.md.

    python benchmarks/peers.py                                     compute what is missing, write the page
    python benchmarks/peers.py --section density --data nltcs --seeds 3   a part of it
    python benchmarks/peers.py --method twoway --again             compute anew what is stored
    python benchmarks/peers.py --page                              only write the page

Data come from the folder in TWOWAY_DATA, packages from an index. Environments are made in the folder of --environments,
by default twoway-peers in the user's cache. Each result is stored at once, as a line of --store, so that an interrupted
run goes on where it ended. Every method has one thread; seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from board.environments import Environments, default_folder
from board.page import page
from board.registry import FACTS, SECTIONS
from board.sections import Section
from board.store import Store
from board.why import WHY
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "peers.md"
STORE = Path(__file__).resolve().parent / "board" / "results.jsonl"
TEMPLATE = Path(__file__).resolve().parent / "board" / "template.md"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--data", nargs="*", help="names of data sets; all by default")
    parser.add_argument("--method", nargs="*", help="names of methods; all by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--again", action="store_true", help="also compute what is stored")
    parser.add_argument("--page", action="store_true", help="compute nothing")
    parser.add_argument("--environments", type=Path, default=default_folder())
    parser.add_argument("--store", type=Path, default=STORE)
    options = parser.parse_args(given)
    store = Store.open(options.store)
    if not options.page:
        with threadpool_limits(1):
            for seed, name in product(range(options.seeds), options.section):
                compute(SECTIONS[name], seed, store, options)
        store.tidy()
    PAGE.write_text(page(TEMPLATE.read_text(), list(SECTIONS.values()), store, WHY, FACTS))


def compute(section: Section, seed: int, store: Store, options: argparse.Namespace) -> None:
    """Compute the missing results of a seed; a method that fails is reported, and the others go on."""
    environments = Environments(options.environments)
    methods = [method for method in section.methods if options.method is None or method in options.method]
    for data, cases in section.data().items():
        for case in cases if options.data is None or data in options.data else ():
            missing = methods if options.again else store.missing(section.name, data, case, methods, seed)
            if missing:
                run(section, data, case, seed, missing, store, environments)


def run(
    section: Section, data: str, case: str, seed: int, methods: Sequence[str], store: Store, environments: Environments
) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for result in section.run(data, case, seed, methods, environments):
                store.add(result)
                shown = ", ".join(f"{name} {value:.4f}" for name, value in result.scores.items())
                print(f"{' | '.join(map(str, result.key))}: {shown}; {result.seconds:.1f} s", flush=True)
    except Exception as error:
        print(f"{section.name} | {data} | {case} | {seed}: {error!r}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
