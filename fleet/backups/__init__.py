"""A backup of everything that PostgreSQL holds of a site, and its way back."""
