"""Processes of this machine and what they need: what `make run` starts, keeps and takes for itself."""
