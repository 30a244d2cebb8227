"""`python -m benchmarks`: this machine's figures, each beside the same job written by hand in plain PySpark."""
