"""Robots over HTTP, which come and go with each request."""
