"""From a configuration and a pipeline file to a run that can start."""
