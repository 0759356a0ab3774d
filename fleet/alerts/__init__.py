"""Alerts: which events raise one, how it is kept, who hears of it, and what people do with it."""
