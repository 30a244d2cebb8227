"""The reference pages of the documentation, generated from the models and declarations they describe."""
