"""Many threads, forked processes and long runs: the same answers, and no memory growth."""

import gc
import multiprocessing
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest

import twoway as tw
from twoway.datasets import dirichlet_rows, draw_records
from twoway.questions.answer import ask

TRUTH = dirichlet_rows(6, 4, 5, seed=3)
RECORDS = draw_records(TRUTH, 3000, observed=0.7, seed=1)


def questions(n):
    """Return so many questions of every kind, no two of them alike."""
    names = TRUTH.schema.names
    labels = TRUTH.schema.variables[0].categories
    kinds = (
        "P({a} = {p} | {b} = {q}, {c} != {r})",
        "P({a}, {b} | {c} in {{{p}, {q}, {r}}})",
        "E({a} | {b} = {p}, {c} <= {r})",
        "mode({a}, {b} | {c} = {q})",
        "H({a} | {b} = {r}, {c} = {p})",
        "I({a}; {b} | {c} = {q})",
    )
    places = product(labels, labels, labels, names, names, names)
    distinct = ((p, q, r, a, b, c) for p, q, r, a, b, c in places if len({a, b, c}) == 3)
    asked = (kind.format(a=a, b=b, c=c, p=p, q=q, r=r) for p, q, r, a, b, c in distinct for kind in kinds)
    found = list(islice(asked, n))
    assert len(found) == n
    return found


def answers(asked, pmf=TRUTH):
    return [str(ask(pmf, text)) for text in asked]


def answers_from_threads(asked, n_threads=8):
    with ThreadPoolExecutor(n_threads) as pool:
        parts = list(pool.map(answers, [asked[first::n_threads] for first in range(n_threads)]))
    found = [""] * len(asked)
    for first, part in enumerate(parts):
        found[first::n_threads] = part
    return found


def test_questions_from_eight_threads():
    asked = questions(1600)
    assert answers_from_threads(asked) == answers(asked)


@pytest.mark.slow
def test_a_hundred_thousand_questions_from_eight_threads():
    asked = questions(40_000)
    asked = (asked * 3)[:100_000]
    assert answers_from_threads(asked) == answers(asked)


def bytes_of_fit(path, seed=0, threads=2):
    tw.fit(RECORDS, rank=3, solver="em", seed=seed, threads=threads).save(path)
    return Path(path).read_bytes()


def test_fits_and_kernels_from_many_threads(tmp_path):
    """Fits that share the pool of threads, and everything that is computed once and kept, do not disturb each other."""
    alone = [bytes_of_fit(tmp_path / "alone", seed) for seed in range(3)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda number: bytes_of_fit(tmp_path / f"{number}", number % 3), range(6)))
    assert together == alone * 2
    frame = TRUTH.sample(500, seed=2)
    calls = [TRUTH.log_prob, TRUTH.memberships, lambda one: tw.count(one).flat, TRUTH.impute]
    with ThreadPoolExecutor(8) as pool:
        for call in calls:
            found = list(pool.map(call, [frame] * 16))
            assert all(np.array_equal(one, found[0]) for one in found)
            assert np.array_equal(found[0], call(frame))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_processes_can_go_on(tmp_path):
    """A child has none of its parent's threads, though the parent has used them."""
    expected = bytes_of_fit(tmp_path / "parent")
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=bytes_of_fit, args=(tmp_path / f"child{number}",)) for number in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    assert [(tmp_path / f"child{number}").read_bytes() for number in range(2)] == [expected] * 2


def grown(work, rounds):
    """Return the bytes that a process holds more after so many rounds of some work, once it has warmed up."""
    for number in range(3):
        work(number)
    gc.collect()
    tracemalloc.start()
    try:
        work(3)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(4, 4 + rounds):
            work(number)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_leak_is_detected():
    kept = []
    assert grown(lambda _: kept.append(np.zeros(1000)), 10) > 50_000


def resident():
    """Return the memory that the system has given this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live(number, folder):
    """Do a bit of everything that a long-lived process does."""
    pmf = tw.fit(RECORDS, rank=3, solver="em", seed=number)
    frame = pmf.sample(50, seed=number)
    pmf.impute(frame)
    pmf.log_prob(frame)
    answers(questions(12), pmf)
    pmf.save(folder / "x.twoway")
    tw.load(folder / "x.twoway")
    tw.count(frame).save(folder / "x.tables")


@pytest.mark.slow
def test_a_long_life_takes_no_more_memory(tmp_path):
    assert grown(lambda number: live(number, tmp_path), 8) < 100_000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell a process's memory")
def test_a_longer_life_takes_no_more_memory_of_the_system(tmp_path):
    """Compiled code and libraries have memory that Python does not count."""
    for number in range(30):
        live(number, tmp_path)
    before = resident()
    for number in range(30, 230):
        live(number, tmp_path)
    assert resident() - before < 20_000_000
