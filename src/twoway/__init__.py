"""The joint probability of many discrete variables, from records full of holes or from two-way tables alone.

>>> import twoway as tw
>>> pmf = tw.fit({"age": ["young", "old", None, "old"], "vote": ["no", "yes", "yes", None]}, rank=1)
>>> round(pmf.prob({"vote": "yes"}), 1)
0.7
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from twoway import datasets, solvers
    from twoway.checks.fit_quality import FitQuality, fit_quality
    from twoway.checks.probability_range import ProbabilityRange, probability_range
    from twoway.data.dask.records import DaskRecords
    from twoway.data.distribution import Distribution
    from twoway.data.files.records import FileRecords
    from twoway.data.missing import MissingLabels
    from twoway.data.records import Records
    from twoway.data.sql.records import DatabaseTable
    from twoway.diagnosis import bounds
    from twoway.diagnosis.diagnose import diagnose
    from twoway.diagnosis.plan import Plan, plan
    from twoway.diagnosis.verdict import Diagnosis
    from twoway.errors import (
        ClusterError,
        DatabaseError,
        DataError,
        FileFormatError,
        ImpossibleEvidenceError,
        MissingFileError,
        QuestionError,
        TwowayError,
        UnknownNameError,
    )
    from twoway.estimators import Discretizer, JointPMFClassifier, JointPMFDensity, JointPMFImputer, RatingPredictor
    from twoway.explorer import explore
    from twoway.fitting.fit import choose_rank, count, fit, load
    from twoway.fitting.update import update
    from twoway.model.information import Estimate
    from twoway.model.intervals import Interval
    from twoway.model.measures import factor_mse, kl_divergence, mean_relative_error, total_variation
    from twoway.model.pmf import JointPMF
    from twoway.model.sql_view import sql_view
    from twoway.plots import plot_components, plot_convergence, plot_dependence, plot_rank, plot_residuals, plot_scatter
    from twoway.questions import ask
    from twoway.report import FitCheck, Monitor, Progress, ProgressBar, Report, Start, StopReason, TableMisfit
    from twoway.schema import Schema, Variable
    from twoway.tables.tables import Tables
    from twoway.uncertainty.bootstrap import Bootstrap
    from twoway.uncertainty.pooling import Pooled, pool
    from twoway.uncertainty.replication import bootstrap

# Where each public name lives. Nothing is imported before it is used: a command line should start at once.
_NAMES_OF_MODULE = {
    "uncertainty.bootstrap": ("Bootstrap",),
    "diagnosis.diagnose": ("diagnose",),
    "checks.fit_quality": ("FitQuality", "fit_quality"),
    "model.intervals": ("Interval",),
    "diagnosis.plan": ("Plan", "plan"),
    "uncertainty.pooling": ("Pooled", "pool"),
    "checks.probability_range": ("ProbabilityRange", "probability_range"),
    "uncertainty.replication": ("bootstrap",),
    "diagnosis.verdict": ("Diagnosis",),
    "data.distribution": ("Distribution",),
    "data.sql.records": ("DatabaseTable",),
    "data.dask.records": ("DaskRecords",),
    "errors": (
        "ClusterError",
        "DataError",
        "DatabaseError",
        "FileFormatError",
        "ImpossibleEvidenceError",
        "MissingFileError",
        "QuestionError",
        "TwowayError",
        "UnknownNameError",
    ),
    "data.files.records": ("FileRecords",),
    "explorer": ("explore",),
    "estimators": ("Discretizer", "JointPMFClassifier", "JointPMFDensity", "JointPMFImputer", "RatingPredictor"),
    "fitting.fit": ("choose_rank", "count", "fit", "load"),
    "model.information": ("Estimate",),
    "model.measures": ("factor_mse", "kl_divergence", "mean_relative_error", "total_variation"),
    "data.missing": ("MissingLabels",),
    "plots": (
        "plot_components",
        "plot_convergence",
        "plot_dependence",
        "plot_rank",
        "plot_residuals",
        "plot_scatter",
    ),
    "model.pmf": ("JointPMF",),
    "questions": ("ask",),
    "data.records": ("Records",),
    "report": ("FitCheck", "Monitor", "Progress", "ProgressBar", "Report", "Start", "StopReason", "TableMisfit"),
    "schema": ("Schema", "Variable"),
    "model.sql_view": ("sql_view",),
    "tables.tables": ("Tables",),
    "fitting.update": ("update",),
}
_MODULES = {"bounds": "diagnosis.bounds", "datasets": "datasets", "solvers": "solvers"}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}

__all__ = [
    "Bootstrap",
    "ClusterError",
    "DaskRecords",
    "DataError",
    "DatabaseError",
    "DatabaseTable",
    "Diagnosis",
    "Discretizer",
    "Distribution",
    "Estimate",
    "FileFormatError",
    "FileRecords",
    "FitCheck",
    "FitQuality",
    "ImpossibleEvidenceError",
    "Interval",
    "JointPMF",
    "JointPMFClassifier",
    "JointPMFDensity",
    "JointPMFImputer",
    "MissingFileError",
    "MissingLabels",
    "Monitor",
    "Plan",
    "Pooled",
    "ProbabilityRange",
    "Progress",
    "ProgressBar",
    "QuestionError",
    "RatingPredictor",
    "Records",
    "Report",
    "Schema",
    "Start",
    "StopReason",
    "TableMisfit",
    "Tables",
    "TwowayError",
    "UnknownNameError",
    "Variable",
    "ask",
    "bootstrap",
    "bounds",
    "choose_rank",
    "count",
    "datasets",
    "diagnose",
    "explore",
    "factor_mse",
    "fit",
    "fit_quality",
    "kl_divergence",
    "load",
    "mean_relative_error",
    "plan",
    "plot_components",
    "plot_convergence",
    "plot_dependence",
    "plot_rank",
    "plot_residuals",
    "plot_scatter",
    "pool",
    "probability_range",
    "solvers",
    "sql_view",
    "total_variation",
    "update",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"twoway.{_MODULES[name]}")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'twoway' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twoway.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
