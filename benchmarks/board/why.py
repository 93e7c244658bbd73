"""Why ours is behind, by section, data set, case (empty: all) and score: what was measured, and nothing else."""

_RULE = (
    "The label is a rule of all features together, without exceptions in the data, and boosted trees are made for "
    "rules; the forms of ours describe which values go together."
)
WHY = {
    ("classification", data, "as they are", score): _RULE
    for data in ("car", "nursery")
    for score in ("log-loss", "accuracy")
}
