"""Robots that are programs: each a process that talks to the site as a real one would; and the demo site they work at."""
