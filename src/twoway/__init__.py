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
    from twoway import bounds, datasets, solvers
    from twoway.diagnosis.bootstrap import Bootstrap
    from twoway.diagnosis.diagnose import diagnose
    from twoway.diagnosis.fit_quality import FitQuality, fit_quality
    from twoway.diagnosis.intervals import Interval
    from twoway.diagnosis.plan import Plan, plan
    from twoway.diagnosis.pooling import Pooled, pool
    from twoway.diagnosis.probability_range import ProbabilityRange, probability_range
    from twoway.diagnosis.replication import bootstrap
    from twoway.diagnosis.verdict import Diagnosis
    from twoway.distribution import Distribution
    from twoway.engines.cluster import DaskRecords
    from twoway.engines.file_records import FileRecords
    from twoway.engines.sql import DatabaseTable
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
    from twoway.estimators import (
        Discretizer,
        JointPMFClassifier,
        JointPMFDensity,
        JointPMFImputer,
        RatingPredictor,
    )
    from twoway.explorer import explore
    from twoway.fitting import choose_rank, count, fit, load
    from twoway.information import Estimate
    from twoway.measures import factor_mse, kl_divergence, mean_relative_error, total_variation
    from twoway.missing import MissingLabels
    from twoway.plots import (
        plot_components,
        plot_convergence,
        plot_dependence,
        plot_rank,
        plot_residuals,
        plot_scatter,
    )
    from twoway.pmf import JointPMF
    from twoway.questions import ask
    from twoway.records import Records
    from twoway.report import FitCheck, Monitor, Progress, ProgressBar, Report, Start, StopReason, TableMisfit
    from twoway.schema import Schema, Variable
    from twoway.sql_export import sql_view
    from twoway.tables import Tables
    from twoway.updating import update

# Where each public name lives. Nothing is imported before it is used: a command line should start at once.
_NAMES_OF_MODULE = {
    "diagnosis.bootstrap": ("Bootstrap",),
    "diagnosis.diagnose": ("diagnose",),
    "diagnosis.fit_quality": ("FitQuality", "fit_quality"),
    "diagnosis.intervals": ("Interval",),
    "diagnosis.plan": ("Plan", "plan"),
    "diagnosis.pooling": ("Pooled", "pool"),
    "diagnosis.probability_range": ("ProbabilityRange", "probability_range"),
    "diagnosis.replication": ("bootstrap",),
    "diagnosis.verdict": ("Diagnosis",),
    "distribution": ("Distribution",),
    "engines.sql": ("DatabaseTable",),
    "engines.cluster": ("DaskRecords",),
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
    "engines.file_records": ("FileRecords",),
    "explorer": ("explore",),
    "estimators": ("Discretizer", "JointPMFClassifier", "JointPMFDensity", "JointPMFImputer", "RatingPredictor"),
    "fitting": ("choose_rank", "count", "fit", "load"),
    "information": ("Estimate",),
    "measures": ("factor_mse", "kl_divergence", "mean_relative_error", "total_variation"),
    "missing": ("MissingLabels",),
    "plots": (
        "plot_components",
        "plot_convergence",
        "plot_dependence",
        "plot_rank",
        "plot_residuals",
        "plot_scatter",
    ),
    "pmf": ("JointPMF",),
    "questions": ("ask",),
    "records": ("Records",),
    "report": ("FitCheck", "Monitor", "Progress", "ProgressBar", "Report", "Start", "StopReason", "TableMisfit"),
    "schema": ("Schema", "Variable"),
    "sql_export": ("sql_view",),
    "tables": ("Tables",),
    "updating": ("update",),
}
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
    if name in ("bounds", "datasets", "solvers"):
        return importlib.import_module(f"twoway.{name}")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'twoway' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"twoway.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
