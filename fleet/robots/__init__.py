"""Robots: what is asked of them, what their words mean, what they can do and what is wrong with them."""
