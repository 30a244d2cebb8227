"""Runs pipelines: plans their parts (`planning`), lets data flow (`dataflow`), stores positions (`checkpoint`, `state`)
and keeps a run together from its start to its end (`run`)."""
