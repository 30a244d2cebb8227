"""HTTP clients: the asynchronous client of a pipeline, and a blocking one."""
