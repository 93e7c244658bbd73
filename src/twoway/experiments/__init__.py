"""The paper's tables: what each one runs, running them, and what came out beside the published numbers.

`tables` declares, `run` computes and saves, `summary` averages, `show` prints. Each imports only those before it.
"""
