"""What is kept for how long, and what deletes the rest."""
