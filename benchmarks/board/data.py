"""Data sets as codes of categories, and their random splits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import twoway as tw

Codes = NDArray[np.int64]
"""(n_records, n_variables), -1 where a cell is missing."""

N_TRAIN, N_TEST = 500, 300
AGES, HOURS, YEARS = [30, 40, 50, 60, 70], [34, 40, 50], [8, 9, 10, 12]


def folder() -> Path:
    if "TWOWAY_DATA" not in os.environ:
        sys.exit("there is no data folder: set TWOWAY_DATA")
    return Path(os.environ["TWOWAY_DATA"])


def groups(numbers: pd.Series, limits: list[int]) -> pd.Series:
    """Return the number of the group of each number, NaN where it is missing."""
    return numbers.where(numbers.isna(), np.digitize(numbers, limits))


def election() -> pd.DataFrame:
    frame = pd.read_csv(folder() / "lca" / "poLCA__election.csv")
    return frame.assign(AGE=groups(frame["AGE"], AGES))


def bfi() -> pd.DataFrame:
    """Return ten of the 25 items, of two of the five traits, and the gender."""
    frame = pd.read_csv(folder() / "surveys" / "bfi.csv.gz")
    return frame[[*(f"{trait}{n}" for trait in "AN" for n in range(1, 6)), "gender"]]


def mushroom() -> pd.DataFrame:
    """Return every second column, and the class."""
    frame = tw.datasets.mushroom()
    return frame[[*frame.columns.drop("class")[::2], "class"]]


def adult() -> pd.DataFrame:
    """Return the columns of categories, ages, hours and years of education in groups."""
    frame = pd.read_csv(folder() / "uci" / "adult.data.gz", header=None, skipinitialspace=True, na_values="?")
    frame = frame.rename(columns=str)
    frame = frame.assign(**{"0": groups(frame["0"], AGES), "12": groups(frame["12"], HOURS)})
    return frame.assign(**{"4": groups(frame["4"], YEARS)})[["0", "1", "4", "5", "6", "7", "8", "9", "12", "14"]]


# How a data set is read, and the column that classifiers predict.
SETS: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
    "votes": (tw.datasets.votes, "class"),
    "mushroom": (mushroom, "class"),
    "nursery": (tw.datasets.nursery, "class"),
    "car": (tw.datasets.car, "class"),
    "election": (election, "PARTY"),
    "bfi": (bfi, "gender"),
    "adult": (adult, "14"),
}


@dataclass(frozen=True)
class Split:
    """Records to learn from and others to predict."""

    train: Codes
    test: Codes
    sizes: tuple[int, ...]
    """Number of categories of each variable."""


@cache
def coded(name: str) -> tuple[Codes, tuple[int, ...]]:
    """Return a data set as codes, the label in the last column; columns of a single category are left out."""
    read, label = SETS[name]
    frame = read()
    frame = frame[[*frame.columns.drop(label), label]]
    columns = [pd.factorize(frame[column], sort=True) for column in frame]
    kept = [(codes, len(labels)) for codes, labels in columns if len(labels) > 1]
    return np.column_stack([codes for codes, _ in kept]), tuple(size for _, size in kept)


def split(name: str, seed: int) -> Split:
    """Return random records for training and for testing.

    A category that training lacks is missing in testing: to a method that learns by counting it has no probability.
    """
    codes, sizes = coded(name)
    n_train = min(N_TRAIN, 2 * len(codes) // 3)
    order = np.random.default_rng([seed, len(codes)]).permutation(len(codes))
    train, test = codes[order[:n_train]], codes[order[n_train : n_train + N_TEST]]
    return Split(train, known_only(train, test), sizes)


def known_only(train: Codes, test: Codes) -> Codes:
    """Return test records without the categories that training lacks."""
    columns = zip(train.T, test.T, strict=True)
    return np.column_stack([np.where(np.isin(own, np.unique(of_train)), own, -1) for of_train, own in columns])


def hide(codes: Codes, share: float, random: np.random.Generator) -> Codes:
    """Return codes with a random share of the cells missing."""
    return np.where(random.random(codes.shape) < share, -1, codes)


def as_frame(codes: Codes, sizes: tuple[int, ...]) -> pd.DataFrame:
    """Return codes as a frame of declared categories, for twoway."""
    columns = zip(codes.T, sizes, strict=True)
    return pd.DataFrame(
        {f"v{n}": pd.Categorical.from_codes(own, categories=range(size)) for n, (own, size) in enumerate(columns)}
    )


@cache
def load_kernels() -> None:
    """Fit something small, so that compilation is in nobody's seconds."""
    frame = as_frame(np.random.default_rng(0).integers(0, 2, (60, 4)), (2,) * 4)
    tw.JointPMFImputer(threads=1).fit(frame).predict_proba(frame)
    tw.JointPMFClassifier(threads=1).fit(frame, np.arange(60) % 2).predict_proba(frame)
