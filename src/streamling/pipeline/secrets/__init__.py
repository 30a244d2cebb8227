"""Secrets encrypted at rest: the values of ``${secret:NAME}`` that `streamling secret set` stores."""
