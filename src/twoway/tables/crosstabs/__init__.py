"""Published cross-tabulations, from what people print to counts.

``cells`` reads a number, ``sheets`` a frame with its labels, ``published_tables`` turns counts or percentages into
counts, and ``published_files`` reads the files that people publish.
"""
