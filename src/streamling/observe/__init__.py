"""What a running pipeline shows: where its time goes, its epochs, some of its rows.

The engine reports to these objects. They hold a bounded amount of data, never block, and do nothing periodically,
except for `rate_history`, which adds counts every ten seconds.
"""
