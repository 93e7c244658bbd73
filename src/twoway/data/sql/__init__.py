"""Records in the tables of a database."""
