"""Device operations, each with a form in plain torch."""
