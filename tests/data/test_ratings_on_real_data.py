"""Real ratings: the predictor against averages and biased matrix factorization."""

import numpy as np
import pytest

from twoway.paper import recommendation
from twoway.paper.recommendation import AVERAGES, Recommendation

pytestmark = pytest.mark.data


@pytest.mark.parametrize("films", recommendation.FILMS)
def test_it_beats_every_average_and_the_factorisation(data_folder, monkeypatch, films):
    monkeypatch.setenv("TWOWAY_DATA", str(data_folder))
    recommendation._recommendation_ratings.cache_clear()
    setting = Recommendation(films)
    errors = {}
    for trial in range(10):
        data = setting.data(trial)
        for method in (*AVERAGES, "BMF", "auto"):
            scores, _ = setting.run(method, data, trial, None)
            errors.setdefault(method, []).append(scores["rmse"])
    means = {method: np.mean(values) for method, values in errors.items()}
    assert means.pop("auto") < min(means.values())
    recommendation._recommendation_ratings.cache_clear()
