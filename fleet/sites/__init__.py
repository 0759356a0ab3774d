"""Sites: their places, their maps, and what may be done with them."""
