"""Brands: makes and models of robots, and the settings of their drivers."""
