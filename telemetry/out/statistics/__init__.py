"""How missions end, hour by hour: counted from events, asked and shown."""
