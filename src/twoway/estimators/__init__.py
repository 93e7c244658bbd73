"""The learned joint PMF put to work the way scikit-learn's users work."""

from twoway.estimators.ratings import RatingPredictor

__all__ = ["RatingPredictor"]
