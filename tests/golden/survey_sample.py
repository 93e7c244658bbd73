"""A made-up survey of strata and towns, from whole numbers alone: the same for every version of everything.

python tests/golden/survey_sample.py > survey.csv && Rscript tests/golden/survey.R survey.csv > tests/golden/survey.json
"""

import sys

import pandas as pd

N_TOWNS = {"north": 6, "south": 5, "west": 4}
POPULATION = {"north": 30, "south": 12, "west": 90}


def survey_sample():
    """Return 300 people of 15 towns in three strata: two answers with holes, weights, population, replicates."""
    state = 12345

    def uniform():
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return (state >> 8) / 2.0**23

    rows = []
    for region, n_towns in N_TOWNS.items():
        for town in range(n_towns):
            of_town = uniform() - 0.5
            for _ in range(20):
                level = of_town + uniform() + uniform()
                trust = "low" if level < 0.8 else "middle" if level < 1.2 else "high"
                vote = "yes" if 0.3 * level + uniform() > 0.8 else "no"
                weight = round((0.5 + 2.0 * uniform()) * (2.0 if region == "west" else 1.0), 3)
                trust, vote = (None if uniform() < 0.07 else answer for answer in (trust, vote))
                rows.append((region, town, trust, vote, weight, POPULATION[region]))
    frame = pd.DataFrame(rows, columns=["region", "town", "trust", "vote", "weight", "size"])
    # A jackknife in strata: each town is left out once, and the others of its stratum stand for it.
    for number, (region, town) in enumerate([(r, t) for r, n in N_TOWNS.items() for t in range(n)]):
        here, n = frame["region"] == region, N_TOWNS[region]
        times = 1.0 * ~here + here * n / (n - 1)
        frame[f"repw{number:02}"] = frame["weight"] * times.where(~(here & (frame["town"] == town)), 0.0)
    return frame


if __name__ == "__main__":
    survey_sample().to_csv(sys.stdout, index=False)
