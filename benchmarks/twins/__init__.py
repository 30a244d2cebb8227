"""The measured jobs as one writes them by hand in plain PySpark. Nothing here uses streamling."""
