"""What is not part of the runtime: local services, the contract suite for plugins, `streamling test`, the training job
of the start-up archive, and the generator of reference pages."""
