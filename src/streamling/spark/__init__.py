"""Spark as operators below the engine need it: masters, scratch folders, functions over Arrow."""
