"""Robots over a broker, which a driver speaks with: the process `manage.py gateway`."""
