"""The learned joint PMF put to work the way scikit-learn's users work."""

from twoway.estimators.classifier import JointPMFClassifier
from twoway.estimators.density import JointPMFDensity
from twoway.estimators.discretizer import Discretizer
from twoway.estimators.imputer import JointPMFImputer
from twoway.estimators.labels.aggregator import LabelAggregator
from twoway.estimators.ratings.predictor import RatingPredictor

__all__ = [
    "Discretizer",
    "JointPMFClassifier",
    "JointPMFDensity",
    "JointPMFImputer",
    "LabelAggregator",
    "RatingPredictor",
]
