"""Published cross-tabulations, from what people print to counts.

``grids`` reads the cells of a file, ``layout_finding`` finds what its rows and columns are (``sheet_regions`` its
parts, ``sheet_lines`` and ``sheet_sums`` its labels, ``sheet_names`` and ``sheet_titles`` its variables,
``sheet_kinds`` its numbers, all by ``sheet_words``), as a ``sheet_layout``, by which ``sheet_reading`` reads each
``sheet_table``. ``cells`` reads a number, ``sheets`` a frame with its ``sheet_labels``, ``crosstabs`` turns counts or
percentages into counts, and ``published_files`` is what users call.
"""
