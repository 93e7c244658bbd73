"""From records, tables or several sources to a model."""
