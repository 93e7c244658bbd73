"""The paper's tables: what each one runs, running them, and what came out beside the published numbers.

`trials` says what a column of a table is; `synthetic`, `classification` and `recommendation` are its kinds. `tables`
declares, `results` saves and averages, `run` computes, `show` prints. Each imports only those before it.
"""
