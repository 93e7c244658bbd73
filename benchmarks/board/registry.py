"""The sections of the board: their data, peers and scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from board import annotators, classes, classification, density, films, imputation, tables
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
# Gens and Domingos, Learning the structure of sum-product networks, 2013.
LEARN_SPN = {
    "nltcs": -6.11,
    "msnbc": -6.11,
    "kdd": -2.18,
    "plants": -12.98,
    "audio": -40.50,
    "jester": -53.48,
    "netflix": -57.33,
    "accidents": -30.04,
    "retail": -11.04,
    "pumsb_star": -24.78,
    "dna": -82.52,
    "kosarek": -10.99,
    "msweb": -10.25,
    "book": -35.89,
    "eachmovie": -52.49,
    "webkb": -158.20,
    "reuters": -85.07,
    "20newsgroups": -155.93,
    "bbc": -250.69,
    "ad": -19.73,
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
    published={"published: hidden Chow-Liu tree": HIDDEN_CHOW_LIU, "published: LearnSPN": LEARN_SPN},
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
RATINGS = Section(
    "ratings",
    "Ratings",
    partial(of_cases, films.DATA, ("",)),
    (OURS, *films.METHODS),
    {},
    (Score("RMSE", is_low_better=True, digits=4), Score("log-loss", is_low_better=True, digits=4)),
    films.run,
    order=films.DATA,
)
SECTIONS = {
    section.name: section for section in (DENSITY, IMPUTATION, CLASSIFICATION, CLASSES, TABLES, LABELS, RATINGS)
}
FACTS = {
    "n_train": N_TRAIN,
    "n_test": N_TEST,
    "n_starts": classes.N_STARTS,
    "n_questions": classes.N_QUESTIONS,
    "n_fits": films.N_FITS,
}
"""What the text of the page says of the runs."""
