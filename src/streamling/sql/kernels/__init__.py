"""Functions on whole Arrow arrays, for what Spark cannot express. They run in Spark's Python workers; a row that has no
answer is NULL, so that a CASE around a call can do its work."""
