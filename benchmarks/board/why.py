"""Why ours is behind, by section, data set, case (empty: all) and score: what was measured, and nothing else."""

WHY: dict[tuple[str, str, str, str], str] = {}
