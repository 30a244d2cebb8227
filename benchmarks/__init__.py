"""`python -m benchmarks`: measures this machine and compares each result with the same job written by hand in plain
PySpark."""
