"""What Django and daphne are told about serving pages, where a setting does not reach."""
