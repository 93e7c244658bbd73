"""How sure an answer is: replicates, intervals, pooled imputations."""
