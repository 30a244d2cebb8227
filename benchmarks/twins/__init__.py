"""The measured jobs written by hand in plain PySpark. Nothing here uses streamling."""
