"""Hypothesis strategies: schemas of mixed labels, PMFs with zeros, records with missing cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import settings
from hypothesis import strategies as st

from twoway.category_labels import label_key
from twoway.model.hidden_tree import HiddenTree
from twoway.model.pmf import JointPMF
from twoway.model.trees import Trees
from twoway.schema import Schema, Variable


def examples(n):
    """Return settings for n examples: half of them in `make test`, ten times as many in a thorough run."""
    return settings(max_examples=max(1, n * settings.default.max_examples // 100))


# "1", 1 and True are three categories; 2.0 is the category 2.
LABELS = ("no", "yes", "1", "30-39", "ä ß", "two\nlines", 0, 1, 2.0, -3, 2.5, True, False)
TEXTS = tuple(label for label in LABELS if isinstance(label, str))
NUMBERS = (0, 1, 2.0, -3, 2.5, 40)
TRUTHS = (True, False)


@st.composite
def variables(draw, name="v", kinds=(LABELS, TEXTS, NUMBERS, TRUTHS), max_categories=4):
    pool = draw(st.sampled_from(kinds))
    size = st.lists(st.sampled_from(pool), min_size=1, max_size=max_categories, unique_by=label_key)
    return Variable(name, tuple(draw(size)))


@st.composite
def schemas(draw, min_variables=1, max_variables=4, **options):
    n = draw(st.integers(min_variables, max_variables))
    return Schema(tuple(draw(variables(name=f"v{index}", **options)) for index in range(n)))


@st.composite
def columns(draw, n_rows, n_columns):
    """Columns that sum to one, with many zeros."""
    size = n_rows * n_columns
    entries = draw(st.lists(st.sampled_from((0, 0, 1, 2, 3, 10)), min_size=size, max_size=size))
    array = np.array(entries, dtype=float).reshape(n_rows, n_columns)
    array[0, array.sum(axis=0) == 0] = 1
    return array / array.sum(axis=0)


@st.composite
def pmfs(draw, schema=None, max_rank=4, **options):
    """PMFs with zero entries and components of weight zero."""
    schema = draw(schemas(**options)) if schema is None else schema
    rank = draw(st.integers(1, max_rank))
    weights = draw(columns(rank, 1))[:, 0]
    return JointPMF(weights, [draw(columns(len(variable), rank)) for variable in schema], schema)


@st.composite
def tree_pmfs(draw, schema=None, max_states=3, **options):
    """PMFs of hidden variables on a tree, with zero entries, states of weight zero and idle hidden variables."""
    schema = draw(schemas(**options)) if schema is None else schema
    n_hidden = draw(st.integers(1, 4))
    parents = (-1, *(draw(st.integers(0, child - 1)) for child in range(1, n_hidden)))
    homes = tuple(draw(st.integers(0, n_hidden - 1)) for _ in schema)
    n_states = [draw(st.integers(1, max_states)) for _ in parents]
    tree = HiddenTree(
        parents,
        homes,
        draw(columns(n_states[0], 1))[:, 0],
        tuple(draw(columns(n_states[child], n_states[parents[child]])) for child in range(1, n_hidden)),
        tuple(draw(columns(len(v), n_states[home])) for v, home in zip(schema, homes, strict=True)),
    )
    return JointPMF.from_trees(schema, Trees(np.ones(1), (tree,)))


def any_pmfs(schema=None, **options):
    """PMFs with one hidden variable or several."""
    return st.one_of(pmfs(schema, **options), tree_pmfs(schema, **options))


@st.composite
def frames(draw, schema, max_records=8):
    """pandas frames of records with missing cells."""
    n = draw(st.integers(0, max_records))
    data = {}
    for variable in schema:
        cells = draw(st.lists(st.sampled_from((None, *variable.categories)), min_size=n, max_size=n))
        column = np.empty(n, dtype=object)
        column[:] = cells
        data[variable.name] = pd.Series(column, dtype=object)
    return pd.DataFrame(data)


@st.composite
def events(draw, schema):
    """A label or a collection of labels for some of the variables."""
    event = {}
    for variable in draw(st.lists(st.sampled_from(schema.variables), unique=True)):
        labels = draw(
            st.lists(st.sampled_from(variable.categories), min_size=1, max_size=len(variable), unique_by=label_key)
        )
        # A Python set would merge 1 and True: they are equal.
        event[variable.name] = labels[0] if draw(st.booleans()) else draw(st.sampled_from((list, tuple)))(labels)
    return event


@st.composite
def some_names(draw, schema, min_size=1):
    return draw(st.lists(st.sampled_from(schema.names), min_size=min_size, unique=True))
