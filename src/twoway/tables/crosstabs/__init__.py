"""Published cross-tabulations, from what people print to counts.

``grids`` reads the cells of a file, ``sheet_finding`` finds what its rows and columns are (``sheet_regions`` its parts,
``sheet_lines`` and ``wide_names`` its labels, ``sheet_names`` its variables, ``sheet_kinds`` its numbers), as a
``sheet_layout``, by which ``sheet_reading`` reads tables; ``sheet_table`` makes pairs of them. ``cells`` reads a
number, ``sheets`` a frame with its labels, ``published_tables`` turns counts or percentages into counts, and
``published_files`` is what users call.
"""
