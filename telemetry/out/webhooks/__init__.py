"""Systems of others that are told of events: who wants which, sending them, and what becomes of it."""
