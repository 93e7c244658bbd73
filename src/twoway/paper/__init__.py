"""The paper's tables: what each one runs, running them, and what came out beside the published numbers.

`base` says what a column of a table is; `synthetic`, `classification` and `recommendation` are its kinds. `tables`
declares, `run` computes and saves, `summary` averages, `show` prints. Each imports only those before it.
"""
