"""Device operations, each with a plain torch form."""
