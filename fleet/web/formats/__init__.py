"""How Django writes times where a page does not say it: as everywhere else in Drover."""
