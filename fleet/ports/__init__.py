"""Ports: what lower apps may ask of upper ones, which fill them at start-up."""
