"""Drover watched by itself: what can be wrong, who looks, and where it is said and counted."""
