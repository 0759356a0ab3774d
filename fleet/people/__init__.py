"""People: who they are, what they may do and where, how they sign in, and programs that act for them."""
