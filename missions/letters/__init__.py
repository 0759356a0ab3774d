"""Dead letters: how they come about, are said, and are decided on."""
