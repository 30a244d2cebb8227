"""A pipeline in one process: the run and what a run shows of itself."""
