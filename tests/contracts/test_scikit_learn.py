"""scikit-learn's checks for every estimator."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import twoway as tw

# Rank and smoothing are given to save time; that they are chosen when they are not is tested elsewhere.
ESTIMATORS = [
    tw.JointPMFClassifier(rank=8, smoothing=0.5, n_starts=1),
    tw.JointPMFImputer(rank=2, smoothing=0.5, n_starts=1),
    tw.JointPMFDensity(rank=2, smoothing=0.5, n_starts=1),
    tw.Discretizer(),
]
EXPECTED_FAILURES = {
    "JointPMFClassifier": {
        "check_sample_weight_equivalence_on_dense_data": "a weight says how much a record matters, not how many it is",
    },
    "JointPMFImputer": {
        "check_methods_sample_order_invariance": "predict_proba is about missing cells only, and there are none",
    },
}


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {})
)
def test_scikit_learn(estimator, check):
    check(estimator)


# They take long tables, not records, so that checks that fit arrays do not apply.
OF_LONG_TABLES = [tw.RatingPredictor(), tw.LabelAggregator()]


@pytest.mark.parametrize("estimator", OF_LONG_TABLES, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize(
    "check",
    [
        "check_parameters_default_constructible",
        "check_no_attributes_set_in_init",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_set_params",
    ],
)
def test_parameters_of_long_tables(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)
