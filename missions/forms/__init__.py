"""Forms: how missions, steps, templates and brands are drawn up by people."""
