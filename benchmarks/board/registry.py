"""The sections of the board: their data, peers and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from board import annotators, classes, classification, density, imputation, tables
from board.data import N_TEST, N_TRAIN
from board.sections import OURS, Score, Section

LOG_LOSS, ACCURACY = Score("log-loss", is_low_better=True), Score("accuracy", is_low_better=False)

# Liu and Van den Broeck, Tractable regularization of probabilistic circuits, 2021.
HIDDEN_CHOW_LIU = {
    "nltcs": -6.00,
    "plants": -14.26,
    "jester": -52.46,
    "audio": -39.77,
    "netflix": -56.28,
    "accidents": -26.74,
    "pumsb_star": -23.65,
    "dna": -79.06,
    "bbc": -251.05,
}


def of_cases(data: Sequence[str], cases: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return dict.fromkeys(data, tuple(cases))


DENSITY = Section(
    "density",
    "Density",
    density.data,
    (OURS, *density.METHODS),
    {"LearnSPN": "deeprob-kit"},
    (Score("log-probability", is_low_better=False),),
    density.run,
    published={"published: hidden Chow-Liu tree": HIDDEN_CHOW_LIU},
)
IMPUTATION = Section(
    "imputation",
    "Imputation",
    partial(of_cases, imputation.DATA, tuple(imputation.CASES)),
    (OURS, *imputation.ENVIRONMENTS),
    imputation.ENVIRONMENTS,
    (LOG_LOSS, ACCURACY),
    imputation.run,
    order=(*imputation.DATA, *imputation.CASES),
)
CLASSIFICATION = Section(
    "classification",
    "Classification",
    partial(of_cases, classification.DATA, tuple(classification.CASES)),
    (OURS, *classification.METHODS),
    dict.fromkeys(classification.METHODS[:-1], "scikit-learn"),
    (LOG_LOSS, ACCURACY),
    classification.run,
    order=(*classification.DATA, *classification.CASES),
)
CLASSES = Section(
    "classes",
    "Latent classes",
    classes.data,
    (OURS, "StepMix", "poLCA"),
    {"StepMix": "stepmix"},
    (Score("log-likelihood", is_low_better=False),),
    classes.run,
    order=tuple(classes.CASES),
)
TABLES = Section(
    "tables",
    "Tables only",
    partial(of_cases, tables.DATA, ("",)),
    (OURS, *tables.METHODS),
    {"mbi": "mbi"},
    (Score("triples", is_low_better=True, digits=4), Score("pairs not published", is_low_better=True, digits=4)),
    tables.run,
    order=tables.DATA,
)
LABELS = Section(
    "labels",
    "Labels of many annotators",
    annotators.data,
    (OURS, *annotators.METHODS),
    dict.fromkeys(annotators.METHODS, "crowd-kit"),
    (Score("accuracy", is_low_better=False, digits=4),),
    annotators.run,
    order=tuple(annotators.data()),
)
SECTIONS = {section.name: section for section in (DENSITY, IMPUTATION, CLASSIFICATION, CLASSES, TABLES, LABELS)}
FACTS = {
    "n_train": N_TRAIN,
    "n_test": N_TEST,
    "n_starts": classes.N_STARTS,
    "n_questions": classes.N_QUESTIONS,
}
"""What the text of the page says of the runs."""
