"""Functions on whole Arrow arrays, for what Spark cannot express. They run in Spark's Python workers; rows without a
result are NULL, so that a CASE around a call works."""
