"""Work on many tasks at once, combined in their order, so that sums do not depend on the number of threads."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from twoway.errors import check_whole_number

T = TypeVar("T")
Task = TypeVar("Task")


def usable_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def reduce_in_order(
    tasks: Iterable[Task],
    work: Callable[[Task], T],
    combine: Callable[[T, T], T],
    *,
    threads: int | None,
    n_tasks: int | None = None,
) -> T:
    """Return the combination of what ``work`` gives for each task, in the order of the tasks.

    Each free thread takes the next task; there must be at least one task.
    """
    workers = usable_cores() if threads is None else check_whole_number("threads", threads, 1)
    if n_tasks is not None:
        workers = min(workers, n_tasks)
    if workers == 1:
        return functools.reduce(combine, map(work, tasks))
    numbered: Iterator[tuple[int, Task]] = enumerate(tasks)
    drawing, combining = threading.Lock(), threading.Lock()
    waiting: dict[int, T] = {}
    combined: list[T] = []
    n_combined = 0

    def draw() -> tuple[int, Task] | None:
        with drawing:
            return next(numbered, None)

    def work_on() -> None:
        nonlocal numbered, n_combined
        try:
            while (numbered_task := draw()) is not None:
                number, task = numbered_task
                result = work(task)
                with combining:
                    waiting[number] = result
                    # In the order of the tasks, whichever is done first.
                    while n_combined in waiting:
                        result = waiting.pop(n_combined)
                        combined[:] = [combine(combined[0], result) if combined else result]
                        n_combined += 1
        except BaseException:
            numbered = iter(())  # the others need not go on
            raise

    # This thread works too: handing all to others would cost as much as a small block.
    others = [_parallel_pool(workers, os.getpid()).submit(work_on) for _ in range(1, workers)]
    try:
        work_on()
    finally:
        wait(others)
    for other in others:
        other.result()
    return combined[0]


def map_in_order(tasks: Sequence[Task], work: Callable[[Task], T], *, threads: int | None) -> list[T]:
    """Return what ``work`` gives for each task, in the order of the tasks; there must be at least one."""
    return reduce_in_order(tasks, lambda task: [work(task)], list.__add__, threads=threads, n_tasks=len(tasks))


@functools.lru_cache(maxsize=4)
def _parallel_pool(workers: int, process: int) -> ThreadPoolExecutor:
    # A forked child has none of its parent's threads: the process is part of the key.
    return ThreadPoolExecutor(workers, thread_name_prefix="twoway")
