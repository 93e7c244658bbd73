"""Compiled functions on arrays: no classes of the package, no options, no input or output.

Importing a module of this folder imports numba, so other modules import them inside functions.

The letters of the paper that appear here:

=====  ==============================================================================
S      number of records
I      number of cells: categories of all variables, numbered through
F      rank: number of components
θ      parameters, shape (1 + I, width): row 0 holds λ, row 1 + c the probabilities of
       cell c in each component. ``width`` is F padded with zeros to whole lanes.
q      Pr(component | record), times Pr(record) where it is not yet normalised
=====  ==============================================================================
"""
