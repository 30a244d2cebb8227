"""Tests of pipelines: cases with input rows and the rows that are expected from them (`streamling test`)."""
