"""The page of the board, from stored results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from board.environments import ALONE, PACKAGES
from board.scores import Gap, Verdict, mean_and_error
from board.sections import OURS, Score, Section
from board.store import Store

Loss = tuple[str, str, str, str]
"""Section, data set, case and score."""
VERDICTS: dict[Verdict, str] = {"ahead": "ahead", "even": "within two standard errors", "behind": "**behind**"}


@dataclass(frozen=True)
class Row:
    """The scores of all methods on one data set, by method and seed."""

    section: Section
    score: Score
    data: str
    case: str
    values: Mapping[str, Mapping[int, float]]
    own_errors: Mapping[str, float]
    """Standard errors over the records of a single seed, where they were stored."""

    def mean_and_error(self, method: str) -> tuple[float, float]:
        mean, error = mean_and_error(list(self.values[method].values()))
        return mean, self.own_errors.get(method, error) if np.isnan(error) else error

    @property
    def title(self) -> str:
        return f"{self.data}, {self.case}" if self.case else self.data

    @property
    def best_peer(self) -> str | None:
        """The peer of the best mean on the seeds in common, of those with at least half as many as any has."""
        if OURS not in self.values:
            return None
        gaps = {name: self.gap(name) for name in self.values if name != OURS}
        most = max((gap.n for gap in gaps.values()), default=0)
        full = [name for name, gap in gaps.items() if 0 < most <= 2 * gap.n]
        return min(full, key=lambda name: gaps[name].mean, default=None)

    def gap(self, peer: str) -> Gap:
        score = self.score
        return Gap.of(self.values[OURS], self.values[peer], is_low_better=score.is_low_better, digits=score.digits)

    def rank(self) -> int:
        """The place of ours among all means; 1 is the best."""
        sign = 1 if self.score.is_low_better else -1
        means = {name: sign * float(np.mean(list(own.values()))) for name, own in self.values.items()}
        means |= {source: sign * own[self.data] for source, own in published(self).items() if self.data in own}
        return 1 + sum(mean < means[OURS] for mean in means.values())


def published(row: Row) -> Mapping[str, Mapping[str, float]]:
    return row.section.published if row.section.published and row.score is row.section.scores[0] else {}


def rows_of(section: Section, score: Score, store: Store) -> list[Row]:
    """Return a row for each data set and case with results."""
    places = {(key[1], key[2]) for key in store.results if key[0] == section.name}
    order, rows = {name: at for at, name in enumerate(section.order)}, []
    for data, case in sorted(places, key=lambda place: [(order.get(name, len(order)), name) for name in place]):
        found = {method: store.of(section.name, data, case, method) for method in section.methods}
        values = {
            method: {result.seed: result.scores[score.name] for result in results}
            for method, results in found.items()
            if results
        }
        errors = {
            method: results[0].scores["standard error"]
            for method, results in found.items()
            if results and "standard error" in results[0].scores
        }
        rows.append(Row(section, score, data, case, values, errors))
    return rows


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the Markdown of a table: a row for each data set, a column for each method, the best mean in bold."""
    section, score = rows[0].section, rows[0].score
    methods = [method for method in section.methods if any(method in row.values for row in rows)]
    sources = list(published(rows[0]))
    yield (
        f"| {score.name}, {'lower' if score.is_low_better else 'higher'} is better | "
        + " | ".join([*methods, *sources, "ours beside the best peer"])
        + " |"
    )
    yield "|---|" + "---:|" * (len(methods) + len(sources)) + "---|"
    for row in rows:
        means = {name: row.mean_and_error(name) for name in row.values}
        best = (min if score.is_low_better else max)(mean for mean, _ in means.values())
        cells = [shown(*means[name], score.digits, means[name][0] == best) if name in means else "" for name in methods]
        cells += [f"{own[row.data]:.2f}" if row.data in own else "" for own in published(row).values()]
        yield f"| {row.title} | " + " | ".join([*cells, compared(row)]) + " |"


def shown(mean: float, error: float, digits: int, is_best: bool) -> str:
    number = f"**{mean:.{digits}f}**" if is_best else f"{mean:.{digits}f}"
    return number if np.isnan(error) else f"{number} ± {error:.{digits}f}"


def compared(row: Row) -> str:
    """Say by how much ours is better than the best peer that was run, seed by seed."""
    peer = row.best_peer
    if peer is None:
        return ""
    gap, digits = row.gap(peer), row.score.digits
    error = "" if np.isnan(gap.error) else f" ± {gap.error:.{digits}f}"
    return f"{gap.mean:+.{digits}f}{error} ({peer}, {seeds(gap.n)}): {VERDICTS[gap.verdict]}"


def seeds(n: int) -> str:
    return f"{n} seed" if n == 1 else f"{n} seeds"


def seconds_table(section: Section, store: Store) -> Iterator[str]:
    """Yield a table of mean CPU seconds."""
    rows = rows_of(section, section.scores[0], store)
    methods = [method for method in section.methods if any(method in row.values for row in rows)]
    yield "| CPU seconds, tuning included | " + " | ".join(methods) + " |"
    yield "|---|" + "---:|" * len(methods)
    for row in rows:
        found = {name: [own.seconds for own in store.of(section.name, row.data, row.case, name)] for name in methods}
        cells = [f"{np.mean(own):.{1 if np.mean(own) >= 1 else 3}f}" if own else "" for own in found.values()]
        yield f"| {row.title} | " + " | ".join(cells) + " |"


def losses(rows: Iterable[Row], why: Mapping[Loss, str]) -> Iterator[str]:
    """Yield a sentence for each row in which ours is behind."""
    for row in rows:
        peer = row.best_peer
        if peer is None or row.gap(peer).verdict != "behind":
            continue
        gap = row.gap(peer)
        reason = next(
            (why[key] for case in (row.case, "") if (key := (row.section.name, row.data, case, row.score.name)) in why),
            "Not explained yet.",
        )
        error = "" if np.isnan(gap.error) else f" ± {gap.error:.{row.score.digits}f}"
        yield f"- {row.title}: {peer} is better by {-gap.mean:.{row.score.digits}f}{error} {row.score.name}. {reason}"


def verdicts(sections: Iterable[Section], store: Store) -> Iterator[str]:
    """Yield the table at the head of the page."""
    yield "| section | score | rows | ours ahead of every peer | within two standard errors | behind | seeds |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for section in sections:
        for score in section.scores:
            rows = [row for row in rows_of(section, score, store) if row.best_peer is not None]
            if not rows:
                continue
            gaps = [row.gap(str(row.best_peer)) for row in rows]
            counts, numbers = Counter(gap.verdict for gap in gaps), sorted({gap.n for gap in gaps})
            span = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
            cells = [counts["ahead"], counts["even"], counts["behind"]]
            yield f"| {section.title} | {score.name} | {len(rows)} | " + " | ".join(map(str, [*cells, span])) + " |"


def versions(section: Section) -> str:
    """Say which packages the peers of a section are."""
    names = dict.fromkeys(section.environments.values())
    return ", ".join(
        dict.fromkeys(
            package.replace("==", " ") for name in names for package in (*ALONE.get(name, ()), *PACKAGES[name])
        )
    )


def page(
    template: str, sections: Sequence[Section], store: Store, why: Mapping[Loss, str], facts: Mapping[str, object]
) -> str:
    """Return the page: a template with comments in the places of what was measured."""
    parts = {name: str(fact) for name, fact in facts.items()}
    parts["verdicts"] = "\n".join(verdicts(sections, store))
    parts |= {section.name: "\n".join(part(section, store, why)).rstrip() for section in sections}
    for name, text in parts.items():
        if f"<!-- {name} -->" not in template:
            raise ValueError(f"the template has no place for {name!r}")
        template = template.replace(f"<!-- {name} -->", text)
    return template


def part(section: Section, store: Store, why: Mapping[Loss, str]) -> Iterator[str]:
    """Yield the tables of a section."""
    if not any(key[0] == section.name for key in store.results):
        yield f"Not run yet: `python benchmarks/peers.py --section {section.name}`."
        return
    said = f"Packages of the peers: {versions(section)}." if section.environments else ""
    there = {key[3] for key in store.results if key[0] == section.name}
    if without := [method for method in section.methods if method not in there]:
        said += f" Not run where this page was written: {', '.join(without)}."
    if said:
        yield from (said.strip(), "")
    for score in section.scores:
        rows = rows_of(section, score, store)
        yield from (*table(rows), "", places(rows), "")
        if behind := list(losses(rows, why)):
            yield from ("Where ours is behind:", "", *behind, "")
    yield from seconds_table(section, store)


def places(rows: Sequence[Row]) -> str:
    """Say how often ours is first and second, of all methods and published figures, by the means."""
    ranks = [row.rank() for row in rows if OURS in row.values]
    groups = Counter("first" if rank == 1 else "second" if rank == 2 else "lower" for rank in ranks)
    said = ", ".join(f"{name} in {groups[name]}" for name in ("first", "second", "lower") if groups[name])
    return f"By the mean {rows[0].score.name}, ours is {said} of {len(ranks)} rows."
