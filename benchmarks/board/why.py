"""Why ours is behind, by section, data set, case (empty: all) and score: what was measured, and nothing else."""

_RULE = (
    "The label is a rule of all features together, without exceptions in the data, and boosted trees are made for "
    "rules; the forms of ours describe which values go together."
)
_ADULT = (
    "Three peers that predict nothing but the label are level with each other; ours learns how all columns go together "
    "from the same records."
)
WHY = (
    {
        ("classification", data, "as they are", score): text
        for data, text in {"car": _RULE, "nursery": _RULE, "adult": _ADULT}.items()
        for score in ("log-loss", "accuracy")
    }
    | {
        ("classification", data, "as they are", "log-loss"): (
            "Both are right about as often, as the accuracy below shows; they differ in how certain they are."
        )
        for data in ("votes", "mushroom")
    }
    | {
        ("density", "pumsb_star", "", "log-probability"): (
            "LearnSPN splits records and variables in turn, each part as it needs: its network for the first seed has "
            "546 sums, and 219 trees of seven variables each in the mean. Ours averages models of one shape, or of a "
            "few, for all records."
        ),
    }
)
