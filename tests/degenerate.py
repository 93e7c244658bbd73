"""Degenerate data: for each case, a source of records and a rank to fit."""

from twoway.data.records import Records
from twoway.schema import Schema, Variable

DEGENERATE = {
    "one record": ({"a": ["x"], "b": ["y"], "c": [1]}, 2),
    "one record with a hole": (
        Records({"a": ["x"], "b": [None]}, schema=Schema((Variable("a", "xy"), Variable("b", "xy")))),
        2,
    ),
    "two records": ({"a": ["x", "y"], "b": [0, 1]}, 2),
    "one variable": ({"a": ["x", "y", "x", None]}, 2),
    "one variable of one category": ({"a": ["x", "x"]}, 1),
    "constant column": ({"a": ["x", "y", "x", "y"], "b": [1, 1, 1, None], "c": [0, 1, 0, 0]}, 2),
    "all constant": ({"a": ["x"] * 5, "b": [1] * 5, "c": [True] * 5}, 2),
    "all equal": ({"a": ["x"] * 4 + [None], "b": [1] * 4 + [2]}, 3),
    "as many categories as records": ({"a": list(range(12)), "b": list(range(12)), "c": list(range(12))}, 3),
    "two identical columns": ({"a": [0, 1, 2] * 8, "b": [0, 1, 2] * 8, "c": [0, 1] * 12}, 3),
    "rank larger than anything": ({"a": [0, 1, 0, 1, 1], "b": [0, 1, 1, 0, None]}, 40),
    "counts of 1e12": (
        Records({"a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "c": [0, 1, 1, 1]}, weights=[1e12, 2e12, 1.0, 3e11]),
        2,
    ),
    "tiny weights": (
        Records({"a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "c": [0, 1, 1, 1]}, weights=[1e-12, 2e-12, 1e-13, 3e-12]),
        2,
    ),
    "unused categories": (
        Records({"a": [0, 1, 0], "b": [0, 1, 1]}, schema=Schema((Variable("a", range(9)), Variable("b", range(5))))),
        3,
    ),
    "never together": ({"a": [0, 1, None, None], "b": [None, None, 0, 1]}, 2),
    "a column all missing": (
        Records({"a": [0, 1, 0, 1], "b": [1, 1, 0, 0]}, schema=Schema([Variable(name, (0, 1)) for name in "abc"])),
        2,
    ),
    "perfectly dependent columns": ({"a": [0, 1, 2, 3] * 6, "b": [0, 1, 0, 1] * 6, "c": [0, 0, 1, 1] * 6}, 4),
    "structural zeros": (
        Records(
            {"sex": ["f", "f", "m", "m"], "pregnant": ["yes", "no", "no", None], "smokes": ["no", "yes", "no", "yes"]},
            weights=[40, 300, 320, 50],
        ),
        2,
    ),
    "weights of 1e-12 and 1e12": (
        Records({"a": [0, 1, 0, 1], "b": [0, 1, 1, 0], "c": [0, 1, 1, 1]}, weights=[1e12, 1e-12, 1.0, 1e-12]),
        2,
    ),
    "nothing but a tree of pairs": (
        {
            "a": [0, 1, 0, 1, 1] + [None] * 10,
            "b": [0, 1, 1, 1, 0] + [0, 1, 1, 0, 1] + [None] * 5,
            "c": [None] * 5 + [0, 0, 1, 0, 1] + [1, 0, 0, 1, 1],
            "d": [None] * 10 + [1, 0, 1, 1, 0],
        },
        2,
    ),
    "labels of every kind": ({"a": [1, "1", True, 1.5, "", None], "b": ["x", "x", "y", "y", None, "x"]}, 2),
}


UNCONNECTED = ("one variable", "one variable of one category", "never together", "a column all missing")
"""Cases whose two-way tables do not connect all variables."""
